import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.http1.chunked import BadChunkError, ChunkedBody

LONGEST_KEPT = 8192 + 2
EXTENSIONS = st.sampled_from([b"", b";", b";a", b';a=b;c="d e"', b";" + b"x" * 255])
TRAILERS = st.lists(st.sampled_from([b"A: b\r\n", b"Content-Length: 5\r\n", b"X:\r\n"]), max_size=3)
CUTS = st.lists(st.integers(0, 400), max_size=12)


@st.composite
def bodies(draw):
    """A chunked body as it may be sent, as it must go on, and its payload."""
    sent, forwarded, payload = b"", b"", b""
    for data in draw(st.lists(st.binary(min_size=1, max_size=40), max_size=5)):
        size = draw(st.sampled_from([b"%x", b"%X", b"0%x", b"00000%x"])) % len(data)
        sent += size + draw(EXTENSIONS) + b"\r\n" + data + b"\r\n"
        forwarded += size + b"\r\n" + data + b"\r\n"
        payload += data
    last = draw(st.sampled_from([b"0", b"000"]))
    sent += last + draw(EXTENSIONS) + b"\r\n" + b"".join(draw(TRAILERS)) + b"\r\n"
    return sent, forwarded + last + b"\r\n\r\n", payload


def pieces(data, cuts):
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def run(data, cuts, *, decode=False):
    """What comes out, what lies beyond, and whether it ended; None for the first two where it was broken."""
    body = ChunkedBody(decode=decode)
    out = b""
    given_pieces = pieces(data, cuts)
    for at, piece in enumerate(given_pieces):
        try:
            forwarded, beyond = body.feed(piece)
        except BadChunkError:
            return None
        out += forwarded
        assert len(body._kept) <= LONGEST_KEPT
        if body.done:
            rest = piece[len(piece) - beyond :] if beyond else b""
            return out, rest + b"".join(given_pieces[at + 1 :])
    return out, None


@given(bodies(), CUTS)
def test_extensions_and_trailers_go_and_all_else_stays_in_any_cut(body, cuts):
    sent, forwarded, _ = body
    assert run(sent, cuts) == (forwarded, b"")


@given(bodies(), CUTS)
def test_decoded_it_is_the_payload_in_any_cut(body, cuts):
    sent, _, payload = body
    assert run(sent, cuts, decode=True) == (payload, b"")


@given(bodies(), CUTS, st.binary(max_size=20))
def test_what_lies_beyond_is_left_alone(body, cuts, beyond):
    sent, forwarded, _ = body
    assert run(sent + beyond, cuts) == (forwarded, beyond)


@given(bodies(), CUTS)
def test_without_its_last_byte_no_body_is_done(body, cuts):
    outcome = run(body[0][:-1], cuts)
    assert outcome is not None
    assert outcome[1] is None


@given(bodies(), CUTS)
def test_payload_bytes_are_counted(body, cuts):
    chunks = ChunkedBody()
    for piece in pieces(body[0], cuts):
        chunks.feed(piece)
    assert chunks.payload_bytes == len(body[2])


@given(bodies())
def test_a_cut_that_holds_neither_is_not_copied(body):
    forwarded = body[1]
    assert ChunkedBody().feed(forwarded)[0] is forwarded


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.sampled_from(["drop", "put", "replace"]),
        st.sampled_from(list(b"\r\n\t ;:0+-_xX5aA\x00\x7f\xff")),
    ),
    min_size=1,
    max_size=3,
)


def mutated(data, mutations):
    data = bytearray(data)
    for at, what, byte in mutations:
        at %= len(data) + 1  # noqa: PLW2901
        data[at : at + (what != "put")] = b"" if what == "drop" else bytes([byte])
    return bytes(data)


def read_by_h11(body):
    """The payload, or None if h11 refuses or wants more."""
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=1_000_000)
    server.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    server.next_event()
    payload = b""
    try:
        while not isinstance(event := server.next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                return None
            payload += event.data
    except h11.RemoteProtocolError:
        return None
    return payload


@given(bodies(), MUTATIONS, CUTS)
@example((b"5 \r\nhello\r\n0\r\n\r\n", b"", b""), [], [])
@example((b"5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n", b"", b""), [], [])
def test_a_damaged_body_is_refused_or_means_to_h11_what_it_means_to_us(body, mutations, cuts):
    sent = mutated(body[0], mutations)
    forwarded, decoded = run(sent, cuts), run(sent, cuts, decode=True)
    assert forwarded == run(sent, [])
    assert (forwarded is None) is (decoded is None)
    if forwarded is None or forwarded[1] is None:
        return
    assert read_by_h11(forwarded[0]) == decoded[0]


@pytest.mark.parametrize("data", [b"a" * 100_000, b"0\r\n" + b"a" * 100_000, b"1\r\na" + b"\r" * 100_000])
def test_a_line_without_end_is_not_kept(data):
    body = ChunkedBody()
    with pytest.raises(BadChunkError):  # noqa: PT012  (any of the pieces may be the one too many)
        for at in range(0, len(data), 100):
            body.feed(data[at : at + 100])
            assert len(body._kept) <= LONGEST_KEPT
