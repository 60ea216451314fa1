"""The homeserver's response head, read as strictly as a request's (behaviour.md §9.4). Pure."""

import re
from typing import Final

import httptools

from proxy.http1 import fields as f

#: `length` of a body that is chunked, or ends with its connection; other lengths are bytes.
CHUNKED: Final = -1
UNTIL_CLOSE: Final = -2
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_MAX_LENGTH_DIGITS = 18
_MAX_FIELDS = 200  # of the homeserver's: generous, but not without end


class ResponseBrokenError(Exception):
    """The homeserver's bytes are not an HTTP response that every client would read in the same way."""


class ResponseHead:
    """What the data path needs to know; `lines` is the status line and the fields to forward, in order."""

    __slots__ = ("keep_alive", "length", "lines", "status", "upgrade")

    status: int
    length: int
    keep_alive: bool
    upgrade: bool
    lines: list[bytes]


def parse_response_head(head: bytes, *, method: bytes) -> ResponseHead:
    """Read a head up to and including its empty line, as the answer to a request with `method`.

    Raises:
        ResponseBrokenError: with words for the log.
    """
    lines = head[:-4].split(b"\r\n")
    match = _STATUS_LINE.fullmatch(lines[0])
    if match is None:
        raise ResponseBrokenError("status line")
    if len(lines) > _MAX_FIELDS or not f.has_only_whole_lines(head, len(lines) + 1):
        raise ResponseBrokenError("control bytes or too many fields in the head")
    parsed = ResponseHead()
    parsed.status = int(match[2])
    minor = match[1] == b"1"
    if not minor:
        lines[0] = b"HTTP/1.1" + lines[0][8:]
    _read_fields(lines, parsed, method, http11=minor)
    try:
        httptools.HttpResponseParser(_LISTENER).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise ResponseBrokenError("llhttp does not take the head") from error
    return parsed


def _read_fields(lines: list[bytes], parsed: ResponseHead, method: bytes, *, http11: bool) -> None:
    length = coding = None
    options: frozenset[bytes] = frozenset()
    websocket = False
    dropped: list[int] = []
    known = f.KNOWN
    for index in range(1, len(lines)):
        name, colon, value = lines[index].partition(b":")
        code = known.get(name)
        if code is None:
            code = f.field_code(name)
        if not colon:
            raise ResponseBrokenError("a field without a colon")
        if code == f.ORDINARY:
            continue
        value = value.strip(b" \t")
        if code == f.CONTENT_LENGTH:
            if length is not None or len(value) > _MAX_LENGTH_DIGITS or not value.isdigit():
                raise ResponseBrokenError("Content-Length")
            length = value
        elif code == f.TRANSFER_ENCODING:
            if coding is not None or value.lower() != b"chunked" or not http11:
                raise ResponseBrokenError("Transfer-Encoding")
            coding = index
        elif code == f.CONNECTION:
            options |= f.connection_options(value)
            dropped.append(index)
        elif code == f.UPGRADE:
            websocket = value.lower() == b"websocket"
            dropped.append(index)
        elif code == f.DROP:
            dropped.append(index)
        elif code == f.MALFORMED:
            raise ResponseBrokenError("a malformed field name")
    parsed.upgrade = websocket and b"upgrade" in options
    parsed.keep_alive = b"close" not in options if http11 else b"keep-alive" in options
    _decide_length(parsed, method, length, chunked=coding is not None)
    for index in reversed(dropped):
        del lines[index]
    nominated = {option for option in options if f.may_be_nominated(option)} if options else None
    if nominated:
        lines[1:] = [line for line in lines[1:] if line.partition(b":")[0].lower() not in nominated]
    parsed.lines = lines


def _decide_length(parsed: ResponseHead, method: bytes, length: bytes | None, *, chunked: bool) -> None:
    """RFC 9112 §6.3, without its tolerance: two framings, or a framing where none may be, is a broken answer."""
    if chunked and length is not None:
        raise ResponseBrokenError("Content-Length and Transfer-Encoding")
    status = parsed.status
    if status < 200 or status == 204:
        if chunked or (length is not None and int(length)):
            raise ResponseBrokenError(f"a body announced in a {status}")
        parsed.length = 0
    elif method == b"HEAD" or status == 304:
        parsed.length = 0
    elif chunked:
        parsed.length = CHUNKED
    elif length is not None:
        parsed.length = int(length)
    else:
        parsed.length = UNTIL_CLOSE
        parsed.keep_alive = False


def without_chunking(lines: list[bytes]) -> list[bytes]:
    """Leave Transfer-Encoding out, for a client of HTTP/1.0."""
    return [line for line in lines if line.partition(b":")[0].lower() != b"transfer-encoding"]


class _Listener:
    """llhttp only judges here, so nothing is listened to."""


_LISTENER = _Listener()
