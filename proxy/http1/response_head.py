"""The homeserver's response head, read as strictly as a request's (behaviour.md §9.4). Pure."""

import re
from typing import Final

import httptools

from proxy.http1.fields import (
    CHUNKED,
    CODES,
    CONNECTION,
    CONTENT_LENGTH,
    DROP,
    IMITATION,
    MAX_LENGTH_DIGITS,
    MAX_OPTIONS,
    NO_OPTIONS,
    ORDINARY_OPTIONS,
    RESPONSE_SPECIAL,
    TEXT,
    TRANSFER_ENCODING,
    UPGRADE,
    connection_options,
    without,
    without_nominated,
)

#: `length` of a body that ends with its connection; else CHUNKED, or bytes.
UNTIL_CLOSE: Final = -2
_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: |\r)")
_MAX_FIELDS = 200  # of the homeserver's: generous, but not without end
#: A busy homeserver sends the same head many times in a moment: what was read is not read again.
_MEMORY_ENTRIES = 1024
_MEMORY_HEAD_BYTES = 2048
_memory: dict[bytes, "ResponseHead"] = {}


class ResponseBrokenError(Exception):
    """The homeserver's bytes are not an HTTP response that every client would read in the same way."""


class ResponseHead:
    """What the data path needs to know; `wire` is what is passed on: status line and fields, without the CR LF at the end.

    Not to be changed: the same head may answer many requests.
    """

    __slots__ = ("keep_alive", "length", "status", "upgrade", "wire")

    status: int
    length: int
    keep_alive: bool
    upgrade: bool
    wire: bytes


def parse_response_head(head: bytes, *, method: bytes, minor: int = 1) -> ResponseHead:
    """Read a head up to and including its empty line, as the answer to a request with `method` of HTTP/1.`minor`.

    Who speaks HTTP/1.0 is told of no transfer coding, not even where there is no body (RFC 9112 §6.1).

    Raises:
        ResponseBrokenError: with words for the log.
    """
    if method == b"HEAD" or not minor:
        return _parse(head, method, minor)
    parsed = _memory.get(head)
    if parsed is None:
        parsed = _parse(head, method, minor)
        if len(_memory) < _MEMORY_ENTRIES and len(head) <= _MEMORY_HEAD_BYTES:
            _memory[head] = parsed
    return parsed


def forget_heads() -> None:
    """Let go of the heads read lately; called four times a second, when their Date is old."""
    _memory.clear()


def _parse(head: bytes, method: bytes, minor: int) -> ResponseHead:
    line = _LINE.match(head)
    if line is None:
        raise ResponseBrokenError("status line")
    controls = head.translate(None, TEXT)
    lines = len(controls) >> 1
    if lines > _MAX_FIELDS or controls != b"\r\n" * lines:
        raise ResponseBrokenError("control bytes or too many fields in the head")
    try:
        httptools.HttpResponseParser(None).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise ResponseBrokenError("llhttp does not take the head") from error
    parsed = ResponseHead()
    parsed.status = int(line[2])
    _read_fields(head, parsed, method, minor, http11=line[1] == b"1")
    return parsed


def _read_fields(head: bytes, parsed: ResponseHead, method: bytes, minor: int, *, http11: bool) -> None:
    """Read the fields that matter, and settle what is passed on."""
    length = None
    chunked = websocket = False
    connection: list[bytes] = []
    dropped: list[re.Match[bytes]] = []
    for field in RESPONSE_SPECIAL.finditer(head.lower()):
        name, value = field.groups()
        value = value.strip(b" \t")
        code = CODES[name]
        if code == CONTENT_LENGTH:
            if length is not None or len(value) > MAX_LENGTH_DIGITS or not value.isdigit():
                raise ResponseBrokenError("Content-Length")
            length = int(value)
        elif code == TRANSFER_ENCODING:
            # A tab behind it is space to most, but to llhttp no `chunked`: its body would end with the connection.
            if chunked or field[2].lstrip(b" \t").rstrip(b" ") != b"chunked" or not http11:
                raise ResponseBrokenError("Transfer-Encoding")
            chunked = True
            if not minor:
                dropped.append(field)
        elif code == CONNECTION:
            connection.append(value)
            dropped.append(field)
        elif code == UPGRADE:
            websocket = value == b"websocket"
            dropped.append(field)
        elif code == DROP:
            dropped.append(field)
        elif code == IMITATION:
            raise ResponseBrokenError("a framing field with an underscore")
    options = connection_options(connection) if connection else NO_OPTIONS
    if len(options) > MAX_OPTIONS:
        raise ResponseBrokenError("too many Connection options")
    parsed.upgrade = websocket and b"upgrade" in options
    parsed.keep_alive = b"close" not in options and (http11 or b"keep-alive" in options)
    _settle_length(parsed, method, length, chunked=chunked)
    wire = without(head[:-4], dropped)
    if not options <= ORDINARY_OPTIONS:
        wire = without_nominated(wire, options)
    parsed.wire = wire if http11 else b"HTTP/1.1" + wire[8:]


def _settle_length(parsed: ResponseHead, method: bytes, length: int | None, *, chunked: bool) -> None:
    """RFC 9112 §6.3, without its tolerance: two framings, or a framing where none may be, is a broken answer."""
    if chunked and length is not None:
        raise ResponseBrokenError("Content-Length and Transfer-Encoding")
    status = parsed.status
    if status < 200 or status == 204:
        if chunked or length:
            raise ResponseBrokenError(f"a body announced in a {status}")
        parsed.length = 0
    elif method == b"HEAD" or status == 304:
        parsed.length = 0
    elif chunked:
        parsed.length = CHUNKED
    elif length is not None:
        parsed.length = length
    else:
        parsed.length = UNTIL_CLOSE
        parsed.keep_alive = False


def without_chunking(wire: bytes) -> bytes:
    """Leave Transfer-Encoding out, for a client of HTTP/1.0."""
    fields = [field for field in RESPONSE_SPECIAL.finditer(wire.lower()) if field[1] == b"transfer-encoding"]
    return without(wire, fields)
