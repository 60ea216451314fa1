from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.matrix.sync_request import FIRST, INSTANT, WAITS, lower_timeout, work_of

PATH = b"/_matrix/client/v3/sync"
CEILING = 120_000


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"", None),
        (b"?", None),
        (b"?since=s1", None),
        (b"?timeout=30000", 30),
        (b"?timeout=120000&since=s1", 120),
        (b"?since=s1&timeout=0", 0),
        (b"?timeout=", None),
        (b"?timeout", None),
        (b"?timeout=-1", None),
        (b"?timeout=-999999", None),
        (b"?timeout=1e9", None),
        (b"?timeout=999999.0", None),
        (b"?timeout=0x999999", None),
        (b"?timeout=999999s", None),
        (b"?timeout=1__000_000", None),
        (b"?timeout=%D9%A9%D9%A9%D9%A9%D9%A9%D9%A9%D9%A9", None),
        (b"?timeout=1&timeout=2", None),
        (b"?xtimeout=999999", None),
        (b"?timeouts=999999", None),
        (b"?Timeout=999999", None),
        (b"?filter=timeout=999999", None),
        (b"?a?timeout=999999", None),
        (b"?=999999&timeout=5", 0.005),
        (b"?timeout=000000030000", 30),
    ],
)
def test_what_is_not_above_the_ceiling_goes_on_unchanged(query, seconds):
    assert lower_timeout(PATH + query, CEILING) == (PATH + query, seconds)


@pytest.mark.parametrize(
    ("query", "lowered", "seconds"),
    [
        (b"timeout=120001", b"timeout=120000", 120),
        (b"a=%7B&timeout=999999&since=s1", b"a=%7B&timeout=120000&since=s1", 120),
        (b"timeout=" + b"9" * 5000, b"timeout=120000", 120),
        (b"timeout=000999999", b"timeout=120000", 120),
        (b"%74imeout=999999", b"%74imeout=120000", 120),
        (b"timeout=%399%399999", b"timeout=120000", 120),
        (b"%74%69meout=%39%39%39%39%39%39", b"%74%69meout=120000", 120),
        (b"timeout=+999999", b"timeout=120000", 120),
        (b"timeout=%2B999999", b"timeout=120000", 120),
        (b"timeout=999_999", b"timeout=120000", 120),
        (b"timeout=%20999999%0A", b"timeout=120000", 120),
        (b"timeout=1&timeout=999999", b"timeout=1&timeout=120000", None),
        (b"timeout=999999&timeout=888888", b"timeout=120000&timeout=120000", None),
        (b"since=s1;timeout=999999", b"since=s1;timeout=120000", None),
        (b"timeout=999999;x", b"timeout=120000;x", None),
        (b"&&timeout=999999&", b"&&timeout=120000&", 120),
        (b"x%26timeout=1&timeout=999999", b"x%26timeout=1&timeout=120000", 120),
    ],
)
def test_what_a_homeserver_could_take_for_more_is_lowered_and_no_other_byte_changed(query, lowered, seconds):
    assert lower_timeout(PATH + b"?" + query, CEILING) == (PATH + b"?" + lowered, seconds)


def as_synapse_reads_it(query):
    """Twisted's arguments: `;` parts too, pairs without `=` do not count, the first of a name does."""
    for piece in query.replace(b";", b"&").split(b"&"):
        name, equals, value = piece.partition(b"=")
        if equals and unquote_to_bytes(name.replace(b"+", b" ")) == b"timeout":
            try:
                return int(unquote_to_bytes(value.replace(b"+", b" ")))
            except ValueError:
                return None
    return None


def spelled(text):
    """Any mix of a character as itself and as its escape."""
    return st.tuples(*(st.sampled_from([character, f"%{ord(character):02X}"]) for character in text)).map(
        "".join
    )


NUMBERS = st.one_of(
    st.integers(0, 10**7).map(str), st.sampled_from(["1_000_000", " 999999 ", "+999999", "-5", "x"])
)
PAIRS = st.one_of(
    st.tuples(spelled("timeout"), NUMBERS.flatmap(spelled)).map("=".join),
    st.sampled_from(["since=s1", "filter=%7B%22timeout%22%3A999999%7D", "timeout", "=", "full_state=true"]),
)
QUERIES = st.lists(st.tuples(PAIRS, st.sampled_from("&&&;"))).map(
    lambda pairs: "".join(part for pair in pairs for part in pair).replace(" ", "+").encode()
)


@given(QUERIES)
def test_however_it_is_spelled_synapse_waits_no_longer_than_the_ceiling(query):
    lowered, seconds = lower_timeout(PATH + b"?" + query, CEILING)
    read, asked = as_synapse_reads_it(lowered.partition(b"?")[2]), as_synapse_reads_it(query)
    assert read == (min(asked, CEILING) if asked is not None else None)
    assert seconds is None or round(seconds * 1000) == read
    assert lower_timeout(lowered, CEILING) == (lowered, seconds)


@pytest.mark.parametrize(
    ("query", "work"),
    [
        (b"", FIRST),
        (b"timeout=30000", FIRST),
        (b"since=", FIRST),
        (b"since=&since=s1", FIRST),
        (b"since=s1&since=", FIRST),
        (b"filter=since=s1", FIRST),
        (b"x?since=s1&timeout=1", FIRST),
        (b"since=s1&timeout=1&full_state=true", FIRST),
        (b"since=s1&timeout=1&full_state=tru%65", FIRST),
        (b"since=s1&timeout=1&full_state=1", FIRST),
        (b"since=s1&timeout=1&%66ull_state=true", FIRST),
        (b"since=s1&timeout=1;full_state=true", FIRST),
        (b"since=s1;timeout=1", FIRST),
        (b"x;since=s1&timeout=1", FIRST),
        (b"since=s1&timeout=1&full_state=false", WAITS),
        (b"since=s1&timeout=1&full_state=", WAITS),
        (b"since=s1&timeout=30000", WAITS),
        (b"%73ince=s1&timeout=1", WAITS),
        (b"since=s1&timeout=1&filter=%7B%22a%3Bb%22%7D", WAITS),
        (b"since=s1&timeout=" + b"9" * 5000, WAITS),
        (b"since=s1", INSTANT),
        (b"since=s1&timeout=0", INSTANT),
        (b"since=s1&timeout=000", INSTANT),
        (b"since=s1&timeout=-1", INSTANT),
        (b"since=s1&timeout=soon", INSTANT),
        (b"since=s1&timeout=0&timeout=30000", INSTANT),
        (b"since=s1&timeout=30000&timeout=0", INSTANT),
        (b"since=s1&%74imeout=0", INSTANT),
        (b"since=s1&a;timeout=30000", INSTANT),
    ],
)
def test_the_query_tells_what_a_sync_makes_the_homeserver_do(query, work):
    assert work_of(query, b"since") == work


def test_an_event_stream_waits_where_no_timeout_is_given():
    assert work_of(b"from=s1", b"from", instant_by_default=False) == WAITS
    assert work_of(b"from=s1&timeout=0", b"from", instant_by_default=False) == INSTANT
