# ruff: noqa: E501  (a dialogue reads best on one line)
"""What the homeserver answers, and what comes of it."""

from harness import END, OK, Answer, Await, Dialogue

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
GOT = b"GET /x HTTP/1.1\r\nHost: a\r\n<via><id>\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
POSTED = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n<via><id>\r\nhi"


def passed(name, answer, client=None, *, method=b"GET", then="keep", **more):
    """`client` None: the answer as it is."""
    sent, got = (request.replace(b"GET", method, 1) for request in (GET, GOT))
    client = answer if client is None else client
    return Dialogue(name, (sent,), (got,), (Answer(answer, then=then),), client, **more)


def broken(name, answer, then="keep", reason="upstream_broken"):
    """Nothing was sent yet: 502, and that connection is never used again; the client's is."""
    return Dialogue(name, (GET,), (GOT,), (Answer(answer, then=then),), refusal=(502, reason), reused=False)


def head(*fields):
    return b"HTTP/1.1 200 OK\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


def cut(name, answer, client, closed="eof", then="keep"):
    """Broken in its middle: the client gets what was good, and sees that it is not all."""
    return Dialogue(name, (GET,), (GOT,), (Answer(answer, then=then),), client, closed=closed, reused=False)


PLAIN = [
    passed("an ordinary answer", OK),
    passed("no body", head(b"Content-Length: 0")),
    passed("case, order and duplicates of fields", head(b"x-b: 1", b"X-a: 2", b"Set-Cookie: a", b"set-cookie: b", b"content-LENGTH: 0")),
    passed("no reason phrase", b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"),
    passed("no reason phrase and no space", b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
    passed("a long reason phrase", b"HTTP/1.1 418 I'm a teapot: \xe4 (really)\r\nContent-Length: 0\r\n\r\n"),
    passed("status 599", b"HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n"),
    passed("an error of the homeserver's", b"HTTP/1.1 500 E\r\nContent-Length: 2\r\n\r\n{}"),
    passed("a limit of the homeserver's", b"HTTP/1.1 429 L\r\nRetry-After: 5\r\nContent-Length: 2\r\n\r\n{}"),
    passed("a redirect", b"HTTP/1.1 307 T\r\nLocation: https://b/%2F?\r\nContent-Length: 0\r\n\r\n"),
    passed("a compressed body", head(b"Content-Encoding: gzip", b"Content-Length: 3") + b"\x1f\x8b\x00"),
    passed("an ETag and a range", b'HTTP/1.1 206 P\r\nETag: "a"\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nab'),
    passed("a body of every byte", head(b"Content-Length: 256") + bytes(range(256))),
    passed("a body of 300 KiB", head(b"Content-Length: 307200") + b"0123456789abcdef" * 19_200),
    passed("hop-by-hop fields go", head(b"Connection: keep-alive, X-A", b"Keep-Alive: timeout=9", b"X-A: b", b"Content-Length: 0"), head(b"Content-Length: 0")),
    passed("Upgrade in an ordinary answer goes", head(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 0"), head(b"Content-Length: 0")),
    passed("a homeserver that closes", head(b"Connection: close", b"Content-Length: 2") + b"ok", OK, then="close", reused=False),
    passed("a homeserver of HTTP/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", OK, reused=False),
    passed("a homeserver of HTTP/1.0 that keeps", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", OK),
]  # fmt: skip

BODIES = [
    passed("chunks as they come", head(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
    passed("no chunk but the last", head(b"Transfer-Encoding: chunked") + b"0\r\n\r\n"),
    passed("extensions and trailers go", head(b"Transfer-Encoding: chunked") + b"3;a=b\r\nabc\r\n0;c\r\nX: y\r\n\r\n",
           head(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n"),
    passed("a body that ends with the connection", head() + b"all of it", head(b"Connection: close") + b"all of it", then="close", closed="eof", reused=False),
    passed("an empty body that ends with the connection", head(), head(b"Connection: close"), then="close", closed="eof", reused=False),
    passed("a body until the end, to HEAD: there is none", head(b"X: y"), method=b"HEAD"),
    passed("HEAD with a length", head(b"Content-Length: 99"), method=b"HEAD"),
    passed("HEAD with chunked", head(b"Transfer-Encoding: chunked"), method=b"HEAD"),
    passed("HEAD of length zero", head(b"Content-Length: 0"), method=b"HEAD"),
    passed("204", b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"),
    passed("204 of length zero", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
    passed("304", b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'),
    passed("304 with a length", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"),
    passed("205 with a length of zero", b"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n"),
]  # fmt: skip

INTERIM = [
    passed("100 of the homeserver's is ours to give", b"HTTP/1.1 100 Continue\r\n\r\n" + OK, OK),
    passed("103 passes", b"HTTP/1.1 103 Early Hints\r\nLink: </y>\r\n\r\n" + OK),
    passed("102 passes", b"HTTP/1.1 102 Processing\r\n\r\n" + OK),
    passed("100 and two 103", b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 E\r\nA: b\r\n\r\n" * 2 + OK, b"HTTP/1.1 103 E\r\nA: b\r\n\r\n" * 2 + OK),
    Dialogue("a flood of 103", (GET,), (GOT,), (Answer(b"HTTP/1.1 103 E\r\n\r\n" * 9 + OK),), b"HTTP/1.1 103 E\r\n\r\n" * 8,
             refusal=(502, "upstream_broken"), reused=False),
    broken("101 that nobody asked for", b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
    broken("101 to h2c", b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
    broken("100 with a length", b"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nhi" + OK),
    broken("103 with chunks", b"HTTP/1.1 103 E\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + OK),
    broken("204 with a body", b"HTTP/1.1 204 N\r\nContent-Length: 2\r\n\r\nhi"),
    broken("204 with chunks", b"HTTP/1.1 204 N\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
]  # fmt: skip

BROKEN = [
    broken("two lengths", head(b"Content-Length: 2", b"Content-Length: 3") + b"ok"),
    broken("the same length twice", head(b"Content-Length: 2", b"Content-Length: 2") + b"ok"),
    broken("lengths in a list", head(b"Content-Length: 2, 2") + b"ok"),
    broken("length with a plus", head(b"Content-Length: +2") + b"ok"),
    broken("length of letters", head(b"Content-Length: two") + b"ok"),
    broken("length of nineteen digits", head(b"Content-Length: 1000000000000000000")),
    broken("length and chunked", head(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"0\r\n\r\n"),
    broken("coding gzip, chunked", head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n"),
    broken("coding identity", head(b"Transfer-Encoding: identity") + b"ok"),
    broken("chunks in HTTP/1.0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    broken("length spelled with an underscore", head(b"Content_Length: 2") + b"ok"),
    broken("space before a colon", head(b"X-A : b", b"Content-Length: 0")),
    broken("a folded field", head(b"X-A: b\r\n c", b"Content-Length: 0")),
    broken("bare CR in a value", head(b"X-A: b\rSet-Cookie: c", b"Content-Length: 0")),
    broken("bare LF in a value", head(b"X-A: b\nSet-Cookie: c", b"Content-Length: 0")),
    broken("NUL in a value", head(b"X-A: b\x00", b"Content-Length: 0")),
    broken("control byte in the reason", b"HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n"),
    broken("bare CR in the reason", b"HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n"),
    broken("bare LF in the reason", b"HTTP/1.1 200 O\nX: y\r\nContent-Length: 0\r\n\r\n"),
    broken("LF ends every line", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    broken("status 099", b"HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n"),
    broken("status 600", b"HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n"),
    broken("status 999", b"HTTP/1.1 999 High\r\nContent-Length: 0\r\n\r\n"),
    broken("status of two digits", b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    broken("status of four digits", b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
    broken("two spaces before the status", b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n"),
    broken("HTTP/2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
    broken("no HTTP at all", b"SSH-2.0-OpenSSH\r\n\r\n"),
    broken("an empty line before the answer", b"\r\n\r\n" + OK),
    broken("a head of more than 64 KiB", b"HTTP/1.1 200 OK\r\n" + b"X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n" * 1700),
    broken("more than 200 fields", head(*(b"X-%d: a" % i for i in range(201)), b"Content-Length: 0")),
    broken("an end without an answer", b"", then="close", reason="upstream_closed"),
    broken("a reset without an answer", b"", then="reset", reason="upstream_closed"),
    broken("an end in the middle of the head", b"HTTP/1.1 200 OK\r\nContent-", then="close", reason="upstream_closed"),
    broken("an end after 103's like is no answer", b"HTTP/1.1 100 Continue\r\n\r\n", then="close", reason="upstream_closed"),
]  # fmt: skip

CUT = [
    cut("a body shorter than its length", head(b"Content-Length: 9") + b"short", head(b"Content-Length: 9") + b"short", then="close"),
    cut("a reset in a body", head(b"Content-Length: 9") + b"short", head(b"Content-Length: 9") + b"short", then="reset"),
    cut("chunks without end", head(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n", head(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n", then="close"),
    cut("a reset in a body that ends with the connection", head() + b"some", head(b"Connection: close") + b"some", closed="reset", then="reset"),
    Dialogue("chunks without end, to HTTP/1.0", (GET.replace(b"HTTP/1.1", b"HTTP/1.0"),), (GOT,),
             (Answer(head(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n", then="close"),), head(b"Connection: close") + b"abc",
             closed="reset", reused=False),
]  # fmt: skip

CONNECTIONS = [
    passed("bytes behind the answer", OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", OK, reused=False),
    passed("bytes behind an answer of chunks", head(b"Transfer-Encoding: chunked") + b"0\r\n\r\nx", head(b"Transfer-Encoding: chunked") + b"0\r\n\r\n", reused=False),
    passed("a body to HEAD", head(b"Content-Length: 2") + b"ok", head(b"Content-Length: 2"), method=b"HEAD", reused=False),
    passed("a body in 304", b"HTTP/1.1 304 N\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 304 N\r\nContent-Length: 2\r\n\r\n", reused=False),
    passed("a body in 204", b"HTTP/1.1 204 N\r\n\r\nok", b"HTTP/1.1 204 N\r\n\r\n", reused=False),
    Dialogue("a stale connection: GET is sent again, once", (GET, Await(OK), GET), (GOT, GOT, GOT),
             (Answer(OK), Answer(b"", then="close"), Answer(OK)), OK * 2, on=(0, 0, 1)),
    Dialogue("a stale connection that is reset: GET is sent again", (GET, Await(OK), GET), (GOT, GOT, GOT),
             (Answer(OK), Answer(b"", then="reset"), Answer(OK)), OK * 2, on=(0, 0, 1)),
    Dialogue("a stale connection: no second time on a new one", (GET, Await(OK), GET), (GOT, GOT, GOT),
             (Answer(OK), Answer(b"", then="close"), Answer(b"", then="close")), OK, on=(0, 0, 1),
             refusal=(502, "upstream_closed"), reused=False),
    Dialogue("a stale connection: POST is never sent again", (GET, Await(OK), POST), (GOT, POSTED),
             (Answer(OK), Answer(b"", then="close")), OK, on=(0, 0), refusal=(502, "upstream_closed"), reused=False),
    Dialogue("a stale connection: DELETE is never sent again", (GET, Await(OK), GET.replace(b"GET", b"DELETE")),
             (GOT, GOT.replace(b"GET", b"DELETE")), (Answer(OK), Answer(b"", then="close")), OK, on=(0, 0),
             refusal=(502, "upstream_closed"), reused=False),
    Dialogue("a stale connection: GET with a body is never sent again", (GET, Await(OK), POST.replace(b"POST", b"GET")),
             (GOT, POSTED.replace(b"POST", b"GET")), (Answer(OK), Answer(b"", then="close")), OK, on=(0, 0),
             refusal=(502, "upstream_closed"), reused=False),
    Dialogue("part of an answer came: GET is not sent again", (GET, Await(OK), GET), (GOT, GOT),
             (Answer(OK), Answer(b"HTTP/1.1 2", then="close")), OK, on=(0, 0), refusal=(502, "upstream_closed"), reused=False),
    Dialogue("a new connection that closes: GET is not sent again", (GET,), (GOT,), (Answer(b"", then="close"),),
             refusal=(502, "upstream_closed"), reused=False),
    Dialogue("a refusal to HEAD has no body", (GET.replace(b"GET", b"HEAD"), Await(b"\r\n\r\n"), END), (GOT.replace(b"GET", b"HEAD"),),
             (Answer(b"", then="close"),), refusal=(502, "upstream_closed"), closed="eof", reused=False),
    Dialogue("POST and PUT follow one another on one connection", (POST, Await(OK), POST.replace(b"POST", b"PUT")),
             (POSTED, POSTED.replace(b"POST", b"PUT")), (Answer(OK), Answer(OK)), OK * 2, on=(0, 0)),
]  # fmt: skip

DIALOGUES = [*PLAIN, *BODIES, *INTERIM, *BROKEN, *CUT, *CONNECTIONS]
