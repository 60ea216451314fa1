from hypothesis import given
from hypothesis import strategies as st

from proxy.http1.proxy_header import BadProxyHeaderError, read_proxy_header
from proxy.identity.client_key import ClientKeys
from proxy.identity.networks import Networks
from proxy.identity.whoami import outcome
from proxy.matrix.access_token import read_access_token

PIECES = st.sampled_from(
    [
        b"for=",
        b"proto=https",
        b'"',
        b"\\",
        b",",
        b";",
        b"=",
        b" ",
        b"\t",
        b"[",
        b"]",
        b"10.0.0.2",
        b"6.6.6.6",
        b"::1",
        b"unknown",
    ]
)
FIELD = st.lists(PIECES | st.binary(max_size=3), max_size=12).map(b"".join)


@given(fields=st.lists(FIELD, max_size=3), same_field=st.booleans(), address=st.ip_addresses())
def test_whatever_a_client_writes_it_is_who_the_trusted_proxy_says(fields, same_field, address):
    trusted = Networks(["10.0.0.0/8"])
    mapped = getattr(address, "ipv4_mapped", None) or address
    if address.is_unspecified or mapped.is_unspecified or mapped in trusted:
        return
    for header, entry in (("X-Forwarded-For", "{}"), ("Forwarded", 'proto=http;for="[{}]:80"')):
        keys = ClientKeys(trusted_proxies=trusted, forwarded_header=header)
        added = entry.format(address).encode()
        values = [*fields[:-1], fields[-1] + b", " + added] if fields and same_field else [*fields, added]
        assert keys.resolve("10.0.0.1", values).address == str(mapped).encode()


@given(values=st.lists(FIELD, min_size=1, max_size=3))
def test_no_forwarding_header_raises(values):
    for header in ("X-Forwarded-For", "Forwarded"):
        client = ClientKeys(trusted_proxies=Networks(["10.0.0.0/8"]), forwarded_header=header).resolve(
            "10.0.0.1", values
        )
        assert client.key
        assert client.scheme([], b"http") in (b"http", b"https")


@given(
    data=st.builds(
        bytes.__add__,
        st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 1.2.3.4", b"\r\n\r\n\x00\r\nQUIT\n"]),
        st.binary(),
    ),
    cut=st.integers(0, 300),
)
def test_what_a_proxy_header_is_does_not_change_with_more_bytes(data, cut):
    early, late = judged(data[:cut]), judged(data)
    assert early in ("needs more", late)


def judged(data):
    try:
        header = read_proxy_header(data)
    except BadProxyHeaderError:
        return "bad"
    return "needs more" if header is None else (header.source, header.length)


@given(
    authorization=st.lists(st.binary() | st.binary().map(b"Bearer ".__add__), max_size=2), query=st.binary()
)
def test_a_token_is_always_one_that_can_be_sent_on(authorization, query):
    for asked in (query, b"access_token=" + query, query + b"&%61ccess_token=t&user_id=" + query):
        token = read_access_token(authorization, asked).token
        assert len(token) <= 4096
        assert all(0x21 <= byte <= 0x7E for byte in token)


@given(status=st.integers(0, 999), body=st.binary() | st.binary().map(b'{"user_id":"@'.__add__))
def test_no_answer_of_whoami_raises(status, body):
    outcome(status, body, body)
