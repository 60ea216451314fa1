"""Bytes to fuzz with: good messages from a grammar, then damaged in a few places with what is known to hurt parsers."""

from hypothesis import strategies as st

TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
METHODS = st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"FOO", b"get"])
TARGETS = st.one_of(
    st.sampled_from([b"/x", b"/", b"//x", b"/x?y", b"http://a/x", b"http://a", b"/%2e%2e/x", b"/x;y=1"]),
    st.lists(st.sampled_from(list(b"/?%&=.:@!$'()*+,;~-_[]{}|\\^`\"<>az09")), max_size=12).map(
        lambda rest: b"/" + bytes(rest)
    ),
)
VERSIONS = st.sampled_from([b"HTTP/1.1"] * 9 + [b"HTTP/1.0"])
EXTRA = [
    b"X-A: b", b"x-a:b", b"X-A:", b"X-A: \t b \t", b"X-A: \xff\x80", b"Connection: keep-alive", b"Connection: X-A",
    b"Connection: close", b"Connection: content-length", b"Connection: transfer-encoding, x-a",
    b"Connection: host,x-request-id", b"Expect: 100-continue", b"Expect: x", b"TE: trailers", b"Trailer: X-A",
    b"Keep-Alive: 5", b"Upgrade: h2c", b"Upgrade: websocket", b"HTTP2-Settings: x", b"Proxy-Connection: close",
    b"X-Request-Id: r", b"X-Request-Id: r r", b"X-Forwarded-For: 1.2.3.4", b"Forwarded: for=a", b"Content-Type: a/b",
    b"Content-Encoding: gzip", b"Cookie: a=b; c", b"Content-Lengths: 9", b"X-Transfer-Encoding: chunked",
]  # fmt: skip
FIELD = st.one_of(
    st.sampled_from(EXTRA),
    st.tuples(
        st.lists(st.sampled_from(list(TOKEN)), min_size=1, max_size=8).map(bytes),
        st.lists(st.sampled_from([9, *range(32, 127), *range(128, 256)]), max_size=12).map(bytes),
    )
    .filter(lambda field: field[0].lower() not in (b"host", b"te"))
    .map(b": ".join),
)
#: What is put into messages, or in the place of a part: bytes that some reader takes for another, and pieces of framing.
BYTES = [
    bytes([byte])
    for byte in b"\r\n\t \x00\x0b\x0c\x1f\x7f\x80\x85\xa0\xff:;,+-_/*?#@%0159aAfFgxX\"'()<>[]{}\\"
]
PIECES = [
    b"\r\n", b"\n\r", b"\r\r\n", b"\n\n", b"\r\n\r\n", b"\r\n ", b"\r\n\t", b" :", b"\t:", b"\x00:", b": ", b"  ",
    b",", b", ", b"chunked", b"xchunked", b"chunked,", b"identity", b"gzip, ", b";q=1", b"0\r\n\r\n", b"0\r\n",
    b"1\r\nZ\r\n", b"5", b"+5", b"0x5", b"ffffffffffffffff", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n",
    b"Content_Length: 5\r\n", b"content-length:3\r\n", b"Content-Length : 5\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding:chunked\r\n", b"Transfer_Encoding: chunked\r\n", b"Transfer-Encoding: x\r\n", b"Host: a\r\n",
    b"Host: b\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\n", b"Connection: content-length\r\n",
    b"Connection: transfer-encoding\r\n", b"Upgrade: websocket\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.1",
    b"HTTP/1.0", b"HTTP/2.0", b"http://a", b"http://", b"GET /y HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
]  # fmt: skip
HURTS = st.one_of(st.sampled_from(BYTES), st.sampled_from(PIECES))


def chunks_of(draw: st.DrawFn, body: bytes) -> bytes:
    """Write a body as chunks: in any sizes, with extensions and trailers."""
    written = b""
    while body:
        size = draw(st.integers(1, len(body)))
        extension = draw(st.sampled_from([b""] * 6 + [b";a", b';a="b"', b";"]))
        written += (
            draw(st.sampled_from([b"%x", b"%X", b"0%x"])) % size + extension + b"\r\n" + body[:size] + b"\r\n"
        )
        body = body[size:]
    trailers = draw(st.sampled_from([b""] * 6 + [b"X-A: b\r\n", b"Content-Length: 9\r\n"]))
    return written + draw(st.sampled_from([b"0", b"000", b"0;x"])) + b"\r\n" + trailers + b"\r\n"


BODIES = st.one_of(
    st.sampled_from(
        [b"", b"hello", b"0\r\n\r\n", b"\r\n\r\n", b"GET /y HTTP/1.1\r\nHost: a\r\n\r\n", b"5\r\nhello\r\n"]
    ),
    st.binary(max_size=20),
)


def framed(draw: st.DrawFn, fields: list[bytes], *, chunked: bool = True) -> bytes:
    """Draw a body and add its framing to the fields; give it as it is sent."""
    framing = draw(st.sampled_from(["none", "length", "chunked"] if chunked else ["none", "length"]))
    if framing == "none":
        return b""
    body = draw(BODIES)
    at = draw(st.integers(0, len(fields)))
    if framing == "length":
        fields.insert(at, b"Content-Length: %d" % len(body))
        return body
    fields.insert(at, draw(st.sampled_from([b"Transfer-Encoding: chunked", b"transfer-encoding:Chunked"])))
    return chunks_of(draw, body)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One good request."""
    version = draw(VERSIONS)
    fields = draw(st.lists(FIELD, max_size=4))
    body = framed(draw, fields, chunked=version == b"HTTP/1.1")
    fields.insert(draw(st.integers(0, len(fields))), b"Host: a")
    line = b" ".join((draw(METHODS), draw(TARGETS), version))
    return b"\r\n".join((line, *fields, b"", body))


STATUSES = st.sampled_from([b"200 OK"] * 6 + [b"204 N", b"304 N", b"404 ", b"500", b"205 R"])


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """One good answer, with interim ones before it."""
    fields = draw(st.lists(FIELD, max_size=4))
    status = draw(STATUSES)
    body = framed(draw, fields)
    if status[:3] in (b"204", b"304"):
        body = b""
        fields = [
            field
            for field in fields
            if not field.lower().startswith((b"content-length", b"transfer-encoding"))
        ]
    interim = draw(
        st.sampled_from([b""] * 6 + [b"HTTP/1.1 103 E\r\nX-A: b\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
    )
    version = draw(st.sampled_from([b"HTTP/1.1 "] * 9 + [b"HTTP/1.0 "]))
    return interim + b"\r\n".join((version + status, *fields, b"", body))


EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from([0, 0, 0, 1, 1, 2, 5]),
        st.one_of(st.just(b""), HURTS),
    ),
    max_size=4,
)


def damaged(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Take out some bytes at each place, and put others in."""
    for place, taken, put in edits:
        at = int(place * len(data))
        data = data[:at] + put + data[at + taken :]
    return data


# Good messages, to be damaged.

GOOD_HEADS = [
    b"GET /x?y HTTP/1.1\r\nHost: a\r\nX-A: b\r\nConnection: keep-alive, x-a\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-A: b\r\n\r\n",
    b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\r\n",
    b"PUT http://a/x HTTP/1.1\r\nhost: a\r\nContent-Length: 5\r\nX: y\r\n\r\n",
    b"PUT /x HTTP/1.0\r\nContent-Length: 5\r\nConnection: keep-alive\r\nX: y\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: [::1]:1\r\nX: \r\n\r\n",
]
GOOD_ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x-a\r\nX-A: b\r\n\r\n",
    b"HTTP/1.0 404 N\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 304 N\r\nETag: x\r\n\r\n",
    b"HTTP/1.1 200 \r\nX: y\r\n\r\n",
]
GOOD_BODIES = [
    b"5\r\nhello\r\n0\r\n\r\n",
    b"A;a=b\r\n0123456789\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
    b"1\r\n0\r\n5\r\n0\r\n\r\n\r\n000\r\n\r\n",
]
