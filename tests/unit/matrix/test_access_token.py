import pytest

from proxy.matrix.access_token import NONE, UNUSABLE, AccessToken, may_name_token, read_access_token

# reference: how Synapse, Dendrite, tuwunel and ESS's HAProxy read tokens
ONE_TOKEN = [
    ([b"Bearer t"], b""),
    ([b"Bearer t"], b"since=s1&timeout=30000"),
    ([], b"access_token=t"),
    ([], b"a=b&access_token=t&c=d"),
    ([], b"access_token=t&access_token=u"),  # the first one, in Synapse and Dendrite
    ([], b"%61ccess_token=t"),
    ([], b"access%5Ftoken=%74"),
    ([], b"access%5ftoken=t"),
    ([], b"a=b;access_token=t"),  # Twisted splits there too
    ([b"bearer t"], b""),  # tuwunel takes any case, as RFC 9110 has it
    ([b"BEARER t"], b""),
    ([b"Bearer   t"], b""),  # and more spaces
    ([b"Basic dTpw"], b"access_token=t"),  # and the query, where the header is no Bearer
    ([b"Bearert"], b"access_token=t"),
    ([b"Bearer"], b"access_token=t"),
    ([b"Bearer t"], b"access_token="),  # empty is no second token
]


@pytest.mark.parametrize(("authorization", "query"), ONE_TOKEN)
def test_a_token_is_read_wherever_some_homeserver_reads_one(authorization, query):
    read = read_access_token(authorization, query)
    assert read.token == b"t"
    assert (read.user_id, read.query) == (b"", b"")


@pytest.mark.parametrize(
    ("authorization", "query"),
    [
        ([], b""),
        ([], b"since=s1"),
        ([], b"access_token"),  # without `=` it is no parameter, in Twisted
        ([], b"xaccess_token=t"),
        ([], b"x=access_token=t"),
        ([], b"ACCESS_TOKEN=t"),
        ([], b"filter=%7B%22access_token%22%3A1%7D"),
        ([b'X-Matrix origin="a",destination="b",key="ed25519:1",sig="x"'], b""),
        ([b"Basic dTpw"], b""),
        ([b"Bearer\tt"], b""),
        ([b"t"], b""),
        ([b""], b""),
        ([], b"user_id=%40a%3Ab"),
    ],
)
def test_no_token_is_no_token(authorization, query):
    assert read_access_token(authorization, query) is NONE


@pytest.mark.parametrize(
    ("authorization", "query"),
    [
        ([b"Bearer t"], b"access_token=t"),
        ([b"Bearer t"], b"access_token=u"),
        ([b"Bearer t"], b"a=b;%61ccess_token=u"),
        ([b"Bearer t", b"Bearer t"], b""),
        ([b"Bearer t", b"X-Matrix x"], b""),
        ([b"X-Matrix x", b"Basic y"], b"access_token=t"),
        ([b"Bearer"], b""),
        ([b"Bearer "], b""),
        ([], b"access_token="),
        ([], b"access_token=%00"),
        ([], b"access_token=t%0a"),
        ([], b"access_token=t%0D%0AX:y"),
        ([], b"access_token=t+u"),
        ([], b"access_token=%ff"),
        ([b"Bearer t u"], b""),
        ([b"Bearer t\x7f"], b""),
        ([b"Bearer t\x80"], b""),
        ([b"Bearer t\t"], b""),
        ([b"Bearer " + b"t" * 4097], b""),
        ([], b"access_token=" + b"t" * 4097),
    ],
)
def test_what_cannot_be_a_token_or_is_two_is_unusable(authorization, query):
    read = read_access_token(authorization, query)
    assert read is UNUSABLE
    assert read.token == b""


@pytest.mark.parametrize(
    "token",
    [
        b"syt_YWxpY2U_yBdUSiiJVBrXNUKDlrrS_1EyDRd",  # Synapse
        b"MDAxY2xvY2F0aW9uIGV4YW1wbGUuY29tCjAwMTNpZGVudGlmaWVyIGtleQo",  # a macaroon: guests, old sessions
        b"mat_uHOHmtoRJ5Ld1C2pSzHWfAgPNoxIbJ_1mH0X2",  # MAS: OAuth
        b"mct_uHOHmtoRJ5Ld1C2pSzHWfAgPNoxIbJ_1mH0X2",  # MAS: compatibility
        b"mpt_uHOHmtoRJ5Ld1C2pSzHWfAgPNoxIbJ_1mH0X2",  # MAS: personal
        b"YmFzZTY0dXJsIG9mIDMyIHJhbmRvbSBieXRlcyEhISE",  # Dendrite
        b"Fq2bD4wZ0nTq8sK1vYc7Lr5xHjPm3gEa",  # tuwunel
        b"Fq2bD4wZ0nTq8sK1vYc7Lr5x",  # continuwuity
        b"wfghWEGh3wgWHEf3478sHFWE",  # an appservice's, as in the specification
        b"30c05ae90a248a4188e620216fa72e349803310ec83e2a77b34fe90be6081f46",
        b"a/b+c=d~e.f-g_h!$&'()*,;:@[]{}|",
        b"t" * 4096,
    ],
)
def test_tokens_of_every_issuer_are_taken_as_they_are(token):
    assert read_access_token([b"Bearer " + token], b"").token == token
    assert (
        read_access_token([], b"access_token=" + b"".join(b"%%%02x" % byte for byte in token)).token == token
    )


@pytest.mark.parametrize(
    ("query", "user_id", "asked"),
    [
        (b"user_id=%40ghost%3Ax", b"%40ghost%3Ax", b"user_id=%40ghost%3Ax"),
        (b"user_id=@ghost:x&device_id=D", b"@ghost:x", b"user_id=@ghost:x&device_id=D"),
        (b"device_id=D&x=y&user_id=@g:x", b"@g:x", b"user_id=@g:x&device_id=D"),
        (
            b"org.matrix.msc3202.device_id=D&user_id=@g:x",
            b"@g:x",
            b"user_id=@g:x&org.matrix.msc3202.device_id=D",
        ),
        (b"user_id=@g:x&user_id=@h:x", b"@g:x", b"user_id=@g:x"),
        (b"user%5Fid=@g:x", b"@g:x", b"user_id=@g:x"),
        (b"device_id=D", b"", b"device_id=D"),
        (b"user_id=", b"", b""),
        (b"a=1;user_id=@g:x;b=2", b"@g:x", b"user_id=@g:x"),
    ],
)
def test_the_masquerade_is_kept_raw_for_whoami(query, user_id, asked):
    for read in (
        read_access_token([b"Bearer t"], query),
        read_access_token([], b"access_token=t&" + query),
    ):
        assert (read.token, read.user_id, read.query) == (b"t", user_id, asked)


@pytest.mark.parametrize("separator", [b"&", b";"])
def test_a_parameter_begins_after_a_separator_and_ends_before_one(separator):
    read = read_access_token(
        [], separator.join([b"x", b"access_token=t", b"", b"a=b=c", b"xuser_id=@no:x", b"user_id=@g:x"])
    )
    assert (read.token, read.user_id) == (b"t", b"@g:x")


def test_everyday_queries_are_not_taken_apart():
    assert not may_name_token(b"since=s1_2_3&timeout=30000&set_presence=online")
    assert not may_name_token(
        b"filter=%7B%22room%22%3A%7B%22timeline%22%3A%7B%22limit%22%3A20%7D%7D%7D&from=t1-2_3"
    )
    assert not may_name_token(b"dir=b&limit=20&from=t%2Bx%2Fy%3D%3D")


def test_nothing_shows_a_token():
    read = read_access_token([b"Bearer s3cret"], b"user_id=@s3cret:x")
    assert "s3cret" not in repr(read)
    assert "s3cret" not in str(read)
    assert repr(NONE) == repr(AccessToken(b"")) == "<AccessToken none>"
    assert not hasattr(read, "__dict__")
