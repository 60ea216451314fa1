# ruff: noqa: E501  (a dialogue reads best on one line)
"""Requests that are served: what exactly goes on to the homeserver, and what the client is told."""

from harness import END, LEAVE, OK, Answer, Await, Dialogue

OK_CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
OK_10 = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
GOT = b"GET /x HTTP/1.1\r\nHost: a\r\n<via><id>\r\n"


def passes(name, sent, got, **more):
    return Dialogue(name, (sent,), (got,), **{"client": OK, **more})


def unchanged(name, line, fields=b"Host: a\r\n", body=b"", **more):
    """What is sent is what the homeserver gets, with Fairgate's fields behind the client's."""
    sent = line + b"\r\n" + fields + b"\r\n" + body
    return passes(name, sent, line + b"\r\n" + fields + b"<via><id>\r\n" + body, **more)


def without(name, fields, kept=b"", **more):
    """Of `fields`, only `kept` goes on."""
    head = b"GET /x HTTP/1.1\r\nHost: a\r\n"
    return passes(name, head + fields + b"\r\n", head + kept + b"<via><id>\r\n", **more)


def chunks(name, body, got):
    return passes(name, CHUNKED + b"\r\n" + body, CHUNKED + b"<via><id>\r\n" + got)


def target(name, text):
    return unchanged(name, b"GET " + text + b" HTTP/1.1")


TARGETS = [
    target("target with an escaped slash", b"/_matrix/client/v3/rooms/%21a%2Fb/state"),
    target("target with a lower-case escape", b"/a%2fb"),
    target("target with an escape of a plain letter", b"/%41"),
    target("target with a broken escape", b"/a%zz%"),
    target("target with a double escape", b"/a%252Fb"),
    target("target with an escaped NUL", b"/a%00"),
    target("target with an escaped CR LF", b"/a%0d%0aX:%20y"),
    target("target with two slashes", b"//x//y"),
    target("target that ends with a slash", b"/x/"),
    target("target with dots", b"/x/./../y"),
    target("target with escaped dots", b"/x/%2e%2e/y"),
    target("target with an empty query", b"/x?"),
    target("target with a query of question marks", b"/x???"),
    target("target with a plus and a semicolon", b"/x?a=b+c;d"),
    target("target with brackets and a pipe", b"/x?a[]=1|2^{}"),
    target("target with a backslash", b"/x\\y"),
    target("target with a sigil and colons", b"/_matrix/client/v3/profile/@a:b.c:8448"),
    target("target with a URL inside", b"/x?u=http://u:p@b/"),
    target("target of 16 KiB", b"/" + b"t" * 16_383),
    passes(
        "absolute-form loses scheme and authority",
        b"GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /x?y HTTP/1.1\r\nHost: a\r\n<via><id>\r\n",
    ),
    passes(
        "absolute-form with a port, in capitals",
        b"GET HTTP://A:80/x HTTP/1.1\r\nHost: a:80\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a:80\r\n<via><id>\r\n",
    ),
    passes(
        "absolute-form without a path",
        b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
        GOT.replace(b"/x", b"/", 1),
    ),
    passes(
        "absolute-form with a query and no path",
        b"GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n",
        GOT.replace(b"/x", b"/?x", 1),
    ),
    passes(
        "absolute-form keeps two slashes",
        b"GET http://a//x HTTP/1.1\r\nHost: a\r\n\r\n",
        GOT.replace(b"/x", b"//x", 1),
    ),
    passes(
        "absolute-form of OPTIONS without a path",
        b"OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n<via><id>\r\n",
    ),
    unchanged("OPTIONS of the asterisk", b"OPTIONS * HTTP/1.1"),
]

METHODS = [
    unchanged(f"method {method}", method.encode() + b" /x HTTP/1.1")
    for method in ("GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "get", "Foo", "Z" * 32)
]

FIELDS = [
    unchanged("no field but Host", b"GET /x HTTP/1.1"),
    unchanged("Host behind other fields", b"GET /x HTTP/1.1", b"X-A: b\r\nHost: a\r\n"),
    unchanged("case and order of names", b"GET /x HTTP/1.1", b"hOsT: a\r\nX-b: 1\r\nx-A: 2\r\nX-B: 3\r\n"),
    unchanged("a field twice", b"GET /x HTTP/1.1", b"Host: a\r\nX-A: b\r\nX-A: b\r\n"),
    unchanged("spaces around a value", b"GET /x HTTP/1.1", b"Host: a\r\nX-A: \t b \t\r\nX-C:d\r\n"),
    unchanged("empty value", b"GET /x HTTP/1.1", b"Host: a\r\nX-A:\r\nX-B: \r\n"),
    unchanged("value of Latin-1", b"GET /x HTTP/1.1", b"Host: a\r\nX-A: \xe4\xff\r\n"),
    unchanged("value of UTF-8", b"GET /x HTTP/1.1", "Host: a\r\nX-A: ä☃\r\n".encode()),
    unchanged("name with all punctuation", b"GET /x HTTP/1.1", b"Host: a\r\n!#$%&'*+-.^_`|~: b\r\n"),
    unchanged("name with an underscore", b"GET /x HTTP/1.1", b"Host: a\r\nx_a: b\r\n"),
    unchanged("cookies and colons", b"GET /x HTTP/1.1", b"Host: a\r\nCookie: a=b; c=d\r\nX: y:z: w\r\n"),
    unchanged(
        "signature of a homeserver",
        b"PUT /_matrix/federation/v1/send/1 HTTP/1.1",
        b'Host: a\r\nAuthorization: X-Matrix origin="b",key="ed25519:1",sig="c+/="\r\n',
    ),
    unchanged(
        "conditions",
        b"GET /x HTTP/1.1",
        b'Host: a\r\nIf-Match: "a"\r\nIf-None-Match: *\r\nRange: bytes=0-1\r\n',
    ),
    unchanged("Accept-Encoding", b"GET /x HTTP/1.1", b"Host: a\r\nAccept-Encoding: br, gzip\r\n"),
    unchanged("Host with a port", b"GET /x HTTP/1.1", b"Host: a.b.c:8448\r\n"),
    unchanged("Host of IPv6", b"GET /x HTTP/1.1", b"Host: [::1]:8448\r\n"),
    unchanged("Host with a dot at its end", b"GET /x HTTP/1.1", b"Host: a.b.\r\n"),
    unchanged(
        "a hundred fields",
        b"GET /x HTTP/1.1",
        b"Host: a\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(99)),
    ),
    unchanged("a head of nearly 64 KiB", b"GET /x HTTP/1.1", b"Host: a\r\nX-A: " + b"b" * 65_490 + b"\r\n"),
    passes(
        "the client's own request id is kept",
        b"GET /x HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine-1\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine-1\r\n<via>\r\n",
    ),
    without("a request id of spaces is replaced", b"X-Request-Id: a b\r\n"),
    without("a long request id is replaced", b"X-Request-Id: " + b"a" * 129 + b"\r\n"),
    passes(
        "a second request id goes",
        b"GET /x HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\nX-Request-Id: other\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n<via>\r\n",
    ),
]

HOP_BY_HOP = [
    without("Connection: keep-alive goes", b"Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nX-A: b\r\n", b"X-A: b\r\n"),
    without("Connection: close ends the connection", b"Connection: close\r\n", client=OK_CLOSING, closed="eof"),
    without("Connection: Close, in a list", b"Connection: x-y, Close\r\n", client=OK_CLOSING, closed="eof"),
    without("Connection twice, close in the second", b"Connection: x-y\r\nConnection: close\r\n", client=OK_CLOSING, closed="eof"),
    without("Connection: an empty list", b"Connection: ,, ,\r\n"),
    without("a nominated field goes", b"Connection: X-A\r\nX-A: b\r\nX-B: c\r\n", b"X-B: c\r\n"),
    without("a nominated field goes, though it came before", b"x-a: b\r\nConnection: close, X-A\r\n", client=OK_CLOSING, closed="eof"),
    without("both of a nominated field's lines go", b"X-A: b\r\nConnection: x-a\r\nX-a: c\r\n"),
    without("nominated Authorization stays", b"Connection: Authorization\r\nAuthorization: Bearer t\r\n", b"Authorization: Bearer t\r\n"),
    without("nominated Host stays", b"Connection: host\r\n"),
    without("nominated Content-Type stays", b"Connection: content-type\r\nContent-Type: a/b\r\n", b"Content-Type: a/b\r\n"),
    passes(
        "nominated Content-Length stays",
        b"POST /x HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nhi",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n<via><id>\r\nhi",
    ),
    passes(
        "nominated Transfer-Encoding stays",
        b"POST /x HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"<via><id>\r\n0\r\n\r\n",
    ),
    without("TE and Trailer go", b"TE: trailers\r\nTrailer: X\r\n"),
    without("Proxy-Authorization and Proxy-Connection go", b"Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\n"),
    without("h2c goes", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"),
    without("the settings of h2c go, nominated or not", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"),
    without("Upgrade to something else goes", b"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n"),
    without("websocket without Connection is no upgrade", b"Upgrade: websocket\r\n"),
    passes(
        "websocket by POST is no upgrade",
        b"POST /x HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nhi",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n<via><id>\r\nhi",
    ),
    without("X-Forwarded-For of a stranger goes", b"X-Forwarded-For: 1.2.3.4\r\nx-forwarded-for: 5.6.7.8\r\n"),
    without("X-Forwarded-For with underscores goes", b"X_Forwarded_For: 1.2.3.4\r\nX-Forwarded_For: 5.6.7.8\r\n"),
    without("Forwarded and its like go", b"Forwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nTrue-Client-IP: 1.1.1.1\r\n"),
]  # fmt: skip

BODIES = [
    unchanged("body of a length", b"POST /x HTTP/1.1", b"Host: a\r\nContent-Length: 5\r\n", b"hello"),
    unchanged("body of length zero", b"POST /x HTTP/1.1", b"Host: a\r\nContent-Length: 0\r\n"),
    unchanged("length with spaces around", b"POST /x HTTP/1.1", b"Host: a\r\nContent-Length: \t5 \r\n", b"hello"),
    unchanged("length with zeros before", b"POST /x HTTP/1.1", b"Host: a\r\nContent-Length: 0005\r\n", b"hello"),
    unchanged("GET with a body", b"GET /x HTTP/1.1", b"Host: a\r\nContent-Length: 5\r\n", b"hello"),
    unchanged("body that looks like a request", b"POST /x HTTP/1.1", b"Host: a\r\nContent-Length: 28\r\n", GET),
    unchanged("body of every byte", b"PUT /x HTTP/1.1", b"Host: a\r\nContent-Length: 256\r\n", bytes(range(256))),
    unchanged("body of 300 KiB", b"PUT /x HTTP/1.1", b"Host: a\r\nContent-Length: 307200\r\n", b"0123456789abcdef" * 19_200),
    unchanged("compressed body", b"PUT /x HTTP/1.1", b"Host: a\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n", b"\x1f\x8b\x00"),
    unchanged("Expect of something else", b"GET /x HTTP/1.1", b"Host: a\r\nExpect: 200-maybe\r\n"),
    chunks("chunks keep their boundaries", b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n", b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"),
    chunks("no chunk but the last", b"0\r\n\r\n", b"0\r\n\r\n"),
    chunks("the last chunk of many zeros", b"1\r\na\r\n000\r\n\r\n", b"1\r\na\r\n000\r\n\r\n"),
    chunks("chunk size in both cases, with zeros", b"00A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"00A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"),
    chunks("chunk of fifteen digits", b"000000000000001\r\na\r\n0\r\n\r\n", b"000000000000001\r\na\r\n0\r\n\r\n"),
    chunks("chunk that holds CR LF and a last chunk", b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"),
    chunks("extensions go", b'3;a=b;c="d"\r\nabc\r\n0;e\r\n\r\n', b"3\r\nabc\r\n0\r\n\r\n"),
    chunks("extension of 256 bytes goes", b"3;" + b"a" * 255 + b"\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
    chunks("empty extension goes", b"3;\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
    chunks("trailers go", b"3\r\nabc\r\n0\r\nX-A: b\r\nX-C: d\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
    chunks("trailers that frame go", b"1\r\na\r\n0\r\nContent-Length: 99\r\nTransfer-Encoding: x\r\nHost: b\r\n\r\n", b"1\r\na\r\n0\r\n\r\n"),
    chunks("one chunk of 200 KiB", b"32000\r\n" + b"x" * 0x32000 + b"\r\n0\r\n\r\n", b"32000\r\n" + b"x" * 0x32000 + b"\r\n0\r\n\r\n"),
    passes(
        "chunked in other letters and spaces",
        b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:  ChunKed \r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:  ChunKed \r\n<via><id>\r\n0\r\n\r\n",
    ),
]  # fmt: skip

VERSIONS = [
    passes(
        "HTTP/1.0 without Host",
        b"GET /x HTTP/1.0\r\n\r\n",
        b"GET /x HTTP/1.1\r\n<via><id>Host: <homeserver>\r\n\r\n",
        client=OK_CLOSING,
        closed="eof",
    ),
    passes("HTTP/1.0 with Host", b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n", GOT, client=OK_CLOSING, closed="eof"),
    passes(
        "HTTP/1.0 with keep-alive",
        b"GET /x HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n",
        GOT,
        client=OK_10,
    ),
    passes(
        "HTTP/1.0 with a body",
        b"POST /x HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n<via><id>\r\nhi",
        client=OK_CLOSING,
        closed="eof",
    ),
    passes(
        "HTTP/1.0 gets no chunks",
        b"GET /x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
        GOT,
        answers=(
            Answer(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\n"
            ),
        ),
        client=b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc",
        closed="eof",
    ),
    passes(
        "HTTP/1.0 gets no 103",
        b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n",
        GOT,
        answers=(Answer(b"HTTP/1.1 103 Early Hints\r\nLink: </y>\r\n\r\n" + OK),),
        client=OK_CLOSING,
        closed="eof",
    ),
    passes(
        "HTTP/1.0 does not expect to continue",
        b"POST /x HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n<via><id>\r\nhi",
        client=OK_CLOSING,
        closed="eof",
    ),
    passes(
        "HTTP/1.0 upgrades to nothing",
        b"GET /x HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        GOT,
        client=OK_CLOSING,
        closed="eof",
    ),
]

FLOWS = [
    passes("one empty line before the request", b"\r\n" + GET, GOT),
    Dialogue("an empty line between requests", (GET, Await(OK), b"\r\n" + GET), (GOT, GOT), (Answer(OK),) * 2, OK * 2, on=(0, 0)),
    Dialogue("pipelined requests are answered in order", (GET + GET.replace(b"/x", b"/y") + GET.replace(b"/x", b"/z"),),
             (GOT, GOT.replace(b"/x", b"/y"), GOT.replace(b"/x", b"/z")),
             (Answer(OK), Answer(OK.replace(b"ok", b"yy")), Answer(OK.replace(b"ok", b"zz"))),
             OK + OK.replace(b"ok", b"yy") + OK.replace(b"ok", b"zz"), on=(0, 0, 0)),
    Dialogue("a body and a request behind it", (b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + GET,),
             (b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n<via><id>\r\nabc", GOT), (Answer(OK),) * 2, OK * 2, on=(0, 0)),
    Dialogue("chunks and a request behind them", (CHUNKED + b"\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\n" + GET,),
             (CHUNKED + b"<via><id>\r\n3\r\nabc\r\n0\r\n\r\n", GOT), (Answer(OK),) * 2, OK * 2, on=(0, 0)),
    Dialogue("a request behind the last is not served", (b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GET,),
             (GOT,), client=OK_CLOSING, closed="eof"),
    Dialogue("a good request, and a bad one behind it", (GET + b"GET /y HTTP/1.1\r\nHost : a\r\n\r\n",), (GOT,), client=OK,
             refusal=(400, "bad_field"), closed="eof"),
    Dialogue("an idle connection ends with the client's end", (GET, Await(OK), END), (GOT,), client=OK, closed="eof"),
    Dialogue("Expect is answered by Fairgate, once the body may come",
             (b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", Await(CONTINUE), b"hi"),
             (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n<via><id>\r\nhi",), client=CONTINUE + OK),
    Dialogue("Expect with chunks",
             (CHUNKED + b"Expect: 100-Continue\r\n\r\n", Await(CONTINUE), b"2\r\nhi\r\n0\r\n\r\n"),
             (CHUNKED + b"<via><id>\r\n2\r\nhi\r\n0\r\n\r\n",), client=CONTINUE + OK),
    Dialogue("Expect without a body is dropped", (b"GET /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",), (GOT,), client=OK),
    Dialogue("Expect with length zero is dropped",
             (b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",),
             (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n<via><id>\r\n",), client=OK),
    Dialogue("a client that leaves in the middle of its body: nobody hears of it",
             (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", LEAVE), (), (), closed="eof"),
    Dialogue("a client that ends in the middle of its body: nobody hears of it",
             (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", END), (), (), closed="eof"),
    Dialogue("a client that ends in the middle of its chunks: nobody hears of it",
             (CHUNKED + b"\r\n5\r\nhel", END), (), (), closed="eof"),
    Dialogue("a client that ends in the middle of its head", (b"GET /x HTTP/1.1\r\nHost: a\r\n", END), (), (), closed="eof"),
]  # fmt: skip

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n\r\n"
UPGRADED = b"GET /ws HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: k\r\n<via><id>Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

TUNNELS = [
    Dialogue("websocket: bytes pass both ways", (UPGRADE, Await(SWITCHED), b"\x81\x00ping", Await(b"pong"), b"bye"),
             (UPGRADED, b"\x81\x00ping", b"bye"),
             (Answer(SWITCH), Answer(b"\x00\r\npong", after=b"ping"), Answer(b"", after=b"bye", then="close")),
             client=SWITCHED + b"\x00\r\npong", closed="eof", reused=False),
    Dialogue("websocket: what the homeserver sends with its 101 passes", (UPGRADE, Await(b"hello")),
             (UPGRADED,), (Answer(SWITCH + b"hello", then="close"),), client=SWITCHED + b"hello", closed="eof", reused=False),
    Dialogue("websocket: what the client sends ahead passes", (UPGRADE + b"early",),
             (UPGRADED, b"early"), (Answer(SWITCH), Answer(b"late", after=b"early", then="close")), client=SWITCHED + b"late",
             closed="eof", reused=False),
    Dialogue("websocket refused: an ordinary answer", (UPGRADE,), (UPGRADED,),
             (Answer(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"),), client=b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"),
]  # fmt: skip

DIALOGUES = [*TARGETS, *METHODS, *FIELDS, *HOP_BY_HOP, *BODIES, *VERSIONS, *FLOWS, *TUNNELS]
