"""Requests that are refused, and of which nothing at all reaches the homeserver."""

from harness import Dialogue


def refused(name, sent, status, reason):
    return Dialogue(name, (sent,), got=(), answers=(), refusal=(status, reason), closed="eof")


def with_field(name, field, reason, status=400):
    return refused(name, b"POST /x HTTP/1.1\r\nHost: a\r\n" + field + b"\r\n\r\n", status, reason)


def with_line(name, line, status, reason):
    return refused(name, line + b"\r\nHost: a\r\n\r\n", status, reason)


def with_chunks(name, body):
    """A body is read whole before the homeserver gets any of it, so it hears nothing of one that turns out broken."""
    return refused(
        name, b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body, 400, "bad_chunk"
    )


LENGTH_AND_CODING = [
    with_field(
        "length, then chunked", b"Content-Length: 5\r\nTransfer-Encoding: chunked", "ambiguous_framing"
    ),
    with_field(
        "chunked, then length", b"Transfer-Encoding: chunked\r\nContent-Length: 5", "ambiguous_framing"
    ),
    with_field(
        "length zero and chunked", b"Content-Length: 0\r\nTransfer-Encoding: chunked", "ambiguous_framing"
    ),
    refused(
        "length and chunked, with a request inside the body",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        "ambiguous_framing",
    ),
]

CODINGS = [
    with_field("coding xchunked", b"Transfer-Encoding: xchunked", "bad_transfer_coding"),
    with_field("coding chunked with something behind", b"Transfer-Encoding: chunkedx", "bad_transfer_coding"),
    with_field("coding identity", b"Transfer-Encoding: identity", "bad_transfer_coding"),
    with_field("coding gzip", b"Transfer-Encoding: gzip", "bad_transfer_coding"),
    with_field("coding gzip, chunked", b"Transfer-Encoding: gzip, chunked", "bad_transfer_coding"),
    with_field("coding chunked, identity", b"Transfer-Encoding: chunked, identity", "bad_transfer_coding"),
    with_field("coding identity, chunked", b"Transfer-Encoding: identity, chunked", "bad_transfer_coding"),
    with_field("coding chunked, chunked", b"Transfer-Encoding: chunked, chunked", "bad_transfer_coding"),
    with_field("coding chunked with a comma", b"Transfer-Encoding: chunked,", "bad_transfer_coding"),
    with_field("coding chunked with a parameter", b"Transfer-Encoding: chunked;q=1", "bad_transfer_coding"),
    with_field("coding in quotes", b'Transfer-Encoding: "chunked"', "bad_transfer_coding"),
    with_field("no coding named", b"Transfer-Encoding:", "bad_transfer_coding"),
    with_field("vertical tab before the coding", b"Transfer-Encoding: \x0bchunked", "bad_field"),
    with_field("form feed after the coding", b"Transfer-Encoding: chunked\x0c", "bad_field"),
    with_field("no-break space before the coding", b"Transfer-Encoding: \xa0chunked", "bad_transfer_coding"),
    with_field(
        "coding twice", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "bad_transfer_coding"
    ),
    with_field(
        "two codings on two lines",
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "bad_transfer_coding",
    ),
    with_field(
        "chunked, then identity on a line of its own",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "bad_transfer_coding",
    ),
    with_field("space before the colon of the coding", b"Transfer-Encoding : chunked", "bad_field"),
    with_field("coding spelled with an underscore", b"Transfer_Encoding: chunked", "bad_field"),
    refused(
        "coding in HTTP/1.0",
        b"POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad_transfer_coding",
    ),
    refused(
        "coding in HTTP/1.0 with keep-alive",
        b"POST /x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad_transfer_coding",
    ),
]

LENGTHS = [
    with_field("length with a plus", b"Content-Length: +5", "bad_length"),
    with_field("length with a minus", b"Content-Length: -5", "bad_length"),
    with_field("length minus zero", b"Content-Length: -0", "bad_length"),
    with_field("length in hexadecimal", b"Content-Length: 0x5", "bad_length"),
    with_field("length with a fraction", b"Content-Length: 5.0", "bad_length"),
    with_field("length with an exponent", b"Content-Length: 1e1", "bad_length"),
    with_field("length with an underscore among the digits", b"Content-Length: 1_0", "bad_length"),
    with_field("length with a space among the digits", b"Content-Length: 1 0", "bad_length"),
    with_field("length in Arabic digits", "Content-Length: \u0665".encode(), "bad_length"),
    with_field("length in superscript of Latin-1", b"Content-Length: \xb2", "bad_length"),
    with_field("length in full-width digits", "Content-Length: \uff15".encode(), "bad_length"),
    with_field("length of nineteen digits", b"Content-Length: 1000000000000000000", "bad_length"),
    with_field("length of twenty digits", b"Content-Length: 18446744073709551617", "bad_length"),
    with_field("length of nineteen zeros", b"Content-Length: 0000000000000000000", "bad_length"),
    with_field("no length named", b"Content-Length:", "bad_length"),
    with_field("length only of spaces", b"Content-Length:   ", "bad_length"),
    with_field("the same length in a list", b"Content-Length: 5, 5", "bad_length"),
    with_field("two lengths in a list", b"Content-Length: 5, 6", "bad_length"),
    with_field("length with a comma", b"Content-Length: 5,", "bad_length"),
    with_field("the same length twice", b"Content-Length: 5\r\nContent-Length: 5", "bad_length"),
    with_field("two lengths", b"Content-Length: 5\r\nContent-Length: 6", "bad_length"),
    with_field("two lengths, spelled in two ways", b"Content-Length: 5\r\ncontent-length: 0", "bad_length"),
    with_field("length with a letter", b"Content-Length: 5a", "bad_length"),
    with_field("length with a vertical tab", b"Content-Length: \x0b5", "bad_field"),
    with_field("length in quotes", b'Content-Length: "5"', "bad_length"),
    with_field("space before the colon of the length", b"Content-Length : 5", "bad_field"),
    with_field("length spelled with an underscore", b"Content_Length: 5", "bad_field"),
    with_field("both spellings of the length", b"Content-Length: 0\r\nContent_Length: 5", "bad_field"),
]

FIELDS = [
    with_field("space before a colon", b"X-A : b", "bad_field"),
    with_field("tab before a colon", b"X-A\t: b", "bad_field"),
    with_field("empty name", b": b", "bad_field"),
    with_field("no colon", b"X-A b", "bad_field"),
    with_field("space in a name", b"X A: b", "bad_field"),
    with_field("name of Latin-1", b"X-\xe4: b", "bad_field"),
    with_field("name in parentheses", b"(X): b", "bad_field"),
    with_field("value folded with a space", b"X-A: b\r\n c", "bad_field"),
    with_field("value folded with a tab", b"X-A: b\r\n\tc", "bad_field"),
    with_field("value folded onto an empty line", b"X-A: b\r\n ", "bad_field"),
    with_field("coding folded", b"Transfer-Encoding:\r\n chunked", "bad_transfer_coding"),
    with_field("bare CR in a value", b"X-A: b\rc", "bad_field"),
    with_field("bare CR before the end of a value", b"X-A: b\r", "bad_field"),
    with_field("bare CR and a field behind it", b"X-A: b\rContent-Length: 5", "bad_field"),
    with_field("bare LF in a value", b"X-A: b\nc", "bad_field"),
    with_field("bare LF and a field behind it", b"X-A: b\nContent-Length: 5", "bad_field"),
    with_field("LF CR between fields", b"X-A: b\n\rX-B: c", "bad_field"),
    with_field("NUL in a value", b"X-A: b\x00c", "bad_field"),
    with_field("NUL in a name", b"X-\x00A: b", "bad_field"),
    with_field("NUL before the coding", b"Transfer-Encoding: \x00chunked", "bad_field"),
    with_field("control byte in a value", b"X-A: \x01", "bad_field"),
    with_field("escape in a value", b"X-A: \x1b[2J", "bad_field"),
    with_field("DEL in a value", b"X-A: \x7f", "bad_field"),
    with_field(
        "host spelled with an underscore is nobody's", b"Connection_: x\r\nExpect : 100-continue", "bad_field"
    ),
    refused(
        "space before the first field", b"GET /x HTTP/1.1\r\n Host: a\r\nX-A: b\r\n\r\n", 400, "bad_field"
    ),
    refused(
        "tab before the first field", b"GET /x HTTP/1.1\r\n\tX-A: b\r\nHost: a\r\n\r\n", 400, "bad_field"
    ),
    refused("LF ends the request line", b"GET /x HTTP/1.1\nHost: a\r\n\r\n", 400, "bad_request_line"),
    refused("LF ends every line", b"GET /x HTTP/1.1\nHost: a\n\n", 400, "bad_request_line"),
    refused("LF ends a field", b"GET /x HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n", 400, "bad_field"),
    refused("LF ends the head", b"GET /x HTTP/1.1\r\nHost: a\r\n\n", 400, "bad_field"),
]

HOSTS = [
    refused("no Host", b"GET /x HTTP/1.1\r\n\r\n", 400, "bad_host"),
    refused("no Host, but other fields", b"GET /x HTTP/1.1\r\nX-A: b\r\n\r\n", 400, "bad_host"),
    refused("two Hosts", b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_host"),
    refused("the same Host twice", b"GET /x HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", 400, "bad_host"),
    refused("empty Host", b"GET /x HTTP/1.1\r\nHost:\r\n\r\n", 400, "bad_host"),
    refused("Host with userinfo", b"GET /x HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "bad_host"),
    refused("Host with a path", b"GET /x HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "bad_host"),
    refused("Host with a space", b"GET /x HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "bad_host"),
    refused("Host in a list", b"GET /x HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "bad_host"),
    refused("Host with a port of letters", b"GET /x HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, "bad_host"),
    refused("Host of Latin-1", b"GET /x HTTP/1.1\r\nHost: \xe4\r\n\r\n", 400, "bad_host"),
    refused("space before the colon of Host", b"GET /x HTTP/1.1\r\nHost : a\r\n\r\n", 400, "bad_field"),
    refused("two Hosts in HTTP/1.0", b"GET /x HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_host"),
]

TARGETS = [
    with_line("authority of another host", b"GET http://b/x HTTP/1.1", 400, "bad_host"),
    with_line("authority with another port", b"GET http://a:81/x HTTP/1.1", 400, "bad_host"),
    with_line("userinfo in the target", b"GET http://u:p@a/x HTTP/1.1", 400, "bad_target"),
    with_line("userinfo that looks like the host", b"GET http://a@b/x HTTP/1.1", 400, "bad_target"),
    with_line("fragment in the target", b"GET /x#y HTTP/1.1", 400, "bad_target"),
    with_line("fragment behind a query", b"GET /x?y#z HTTP/1.1", 400, "bad_target"),
    with_line("asterisk for GET", b"GET * HTTP/1.1", 400, "bad_target"),
    with_line("authority-form for GET", b"GET a:80 HTTP/1.1", 400, "bad_target"),
    with_line("no slash", b"GET x HTTP/1.1", 400, "bad_target"),
    with_line("another scheme", b"GET ftp://a/x HTTP/1.1", 400, "bad_target"),
    with_line("absolute-form without authority", b"GET http:///x HTTP/1.1", 400, "bad_host"),
    with_line("target of Latin-1", b"GET /\xe4 HTTP/1.1", 400, "bad_target"),
    with_line("target of UTF-8", "GET /ä HTTP/1.1".encode(), 400, "bad_target"),
    refused("no Host, with absolute-form", b"GET http://a/x HTTP/1.1\r\nX-A: b\r\n\r\n", 400, "bad_host"),
    refused("absolute-form in HTTP/1.0 without Host", b"GET http://a/x HTTP/1.0\r\n\r\n", 400, "bad_host"),
]

LINES = [
    with_line("two spaces before the target", b"GET  /x HTTP/1.1", 400, "bad_request_line"),
    with_line("two spaces before the version", b"GET /x  HTTP/1.1", 400, "bad_request_line"),
    with_line("space after the version", b"GET /x HTTP/1.1 ", 400, "bad_request_line"),
    with_line("space before the method", b" GET /x HTTP/1.1", 400, "bad_request_line"),
    with_line("tab for a space", b"GET\t/x HTTP/1.1", 400, "bad_request_line"),
    with_line("space in the target", b"GET /x y HTTP/1.1", 400, "bad_request_line"),
    with_line("no version", b"GET /x", 400, "bad_request_line"),
    with_line("no target", b"GET HTTP/1.1", 400, "bad_request_line"),
    with_line("NUL in the target", b"GET /\x00 HTTP/1.1", 400, "bad_target"),
    with_line("method in quotes", b'"GET" /x HTTP/1.1', 400, "bad_request_line"),
    with_line("version in lower case", b"GET /x http/1.1", 400, "bad_request_line"),
    with_line("version without a minor number", b"GET /x HTTP/1", 400, "bad_request_line"),
    with_line("version with a long minor number", b"GET /x HTTP/1.10", 400, "bad_request_line"),
    with_line("HTTP/0.9", b"GET /x HTTP/0.9", 505, "version_unknown"),
    with_line("HTTP/1.2", b"GET /x HTTP/1.2", 505, "version_unknown"),
    with_line("HTTP/2.0", b"GET /x HTTP/2.0", 505, "version_unknown"),
    refused("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version_unknown"),
    with_line("CONNECT", b"CONNECT a:443 HTTP/1.1", 405, "method_not_allowed"),
    with_line("TRACE", b"TRACE /x HTTP/1.1", 405, "method_not_allowed"),
    with_line("method of thirty-three letters", b"A" * 33 + b" /x HTTP/1.1", 501, "method_unknown"),
    with_line("method of a hundred letters", b"A" * 100 + b" /x HTTP/1.1", 501, "method_unknown"),
    refused(
        "two empty lines before the request",
        b"\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        "bad_request_line",
    ),
    refused("LF before the request", b"\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request_line"),
    refused("CR before the request", b"\rGET /x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request_line"),
    refused("a ClientHello of TLS", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "bad_request_line"),
]

LIMITS = [
    with_line("target of 16 KiB and a byte", b"GET /" + b"t" * 16_384 + b" HTTP/1.1", 414, "target_too_long"),
    refused("target without end", b"GET /" + b"t" * 20_000, 414, "target_too_long"),
    with_field(
        "a hundred fields and one", b"\r\n".join(b"X-%d: a" % i for i in range(100)), "head_too_large", 431
    ),
    with_field("a field of 64 KiB", b"X-A: " + b"b" * 65_536, "head_too_large", 431),
    refused(
        "fields without end",
        b"GET /x HTTP/1.1\r\nHost: a\r\n"
        + b"X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n" * 1200,
        431,
        "head_too_large",
    ),
]

UPGRADES = [
    refused(
        "websocket with a length",
        b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 33\r\n\r\n"
        b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
        "upgrade_with_body",
    ),
    refused(
        "websocket with chunks",
        b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
        "upgrade_with_body",
    ),
]

CHUNKS = [
    with_chunks("chunk size with a plus", b"+5\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size with a minus", b"-5\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size with 0x", b"0x5\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size with an underscore", b"0_5\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size of sixteen digits", b"1000000000000005\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size beyond 64 bits", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size of twenty zeros", b"00000000000000000005\r\nhello\r\n0\r\n\r\n"),
    with_chunks("no chunk size", b"\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size of letters", b"xyz\r\nhello\r\n0\r\n\r\n"),
    with_chunks("space before the chunk size", b" 5\r\nhello\r\n0\r\n\r\n"),
    with_chunks("space behind the chunk size", b"5 \r\nhello\r\n0\r\n\r\n"),
    with_chunks("tab behind the chunk size", b"5\t\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk size in Arabic digits", "\u0665\r\nhello\r\n0\r\n\r\n".encode()),
    with_chunks("chunk longer than its size", b"4\r\nhello\r\n0\r\n\r\n"),
    with_chunks("chunk shorter than its size", b"6\r\nhello\r\n0\r\n\r\n"),
    with_chunks("LF behind the chunk size", b"5\nhello\r\n0\r\n\r\n"),
    with_chunks("LF behind the chunk", b"5\r\nhello\n0\r\n\r\n"),
    with_chunks("CR behind the chunk size", b"5\rhello\r\n0\r\n\r\n"),
    with_chunks("two bytes other than CR LF behind the chunk", b"5\r\nhelloXX0\r\n\r\n"),
    with_chunks("LF in an extension", b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    with_chunks("CR in an extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    with_chunks("NUL in an extension", b"5;a\x00\r\nhello\r\n0\r\n\r\n"),
    with_chunks("extension of 257 bytes", b"5;" + b"a" * 256 + b"\r\nhello\r\n0\r\n\r\n"),
    with_chunks("extension without end", b"5;" + b"a" * 10_000),
    with_chunks("trailer folded", b"0\r\nA: b\r\n c\r\n\r\n"),
    with_chunks("trailer with a space before the colon", b"0\r\nA : b\r\n\r\n"),
    with_chunks("trailer with a bare LF", b"0\r\nA: b\n\r\n\r\n"),
    with_chunks("trailer with a NUL", b"0\r\nA: \x00\r\n\r\n"),
    with_chunks("trailer without a colon", b"0\r\nA\r\n\r\n"),
    with_chunks("trailers of more than 8 KiB", b"0\r\n" + b"A: bbbbbbbbbbbbbb\r\n" * 500 + b"\r\n"),
]

DIALOGUES = [
    *LENGTH_AND_CODING, *CODINGS, *LENGTHS, *FIELDS, *HOSTS, *TARGETS, *LINES, *LIMITS, *UPGRADES, *CHUNKS,
]  # fmt: skip
