"""A request's head, from raw bytes to what is known about it. Pure; strict; never repairs.

Promise: what is returned re-parses, anywhere, to the same message. A head that two servers could read in two ways is
refused with its reason (behaviour.md §9.3, RFC 9112). Two judges must agree: the checks here and llhttp.
The head's size was checked by the caller, over segments, before this is called.
"""

import re
from typing import Final

import httptools

from proxy.errors import Reason, Refused
from proxy.http1 import fields as f

#: `length` of a chunked body; other lengths are bytes.
CHUNKED: Final = -1
_MAX_LENGTH_DIGITS = 18  # below 2**63, so no server can overflow on it
_LINE = re.compile(rb'([A-Za-z]{1,32}) ([!"$-~]+) HTTP/1\.([01])\r\n')
_COMMON_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"})
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_HOST = re.compile(rb"(?:[a-z0-9._~!$&'()*+;=%-]+|\[[0-9a-f:.]+(?:%[0-9a-z._~-]+)?\])(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://([^/?]*)(.*)")
_SLASH = ord("/")
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_NO_OPTIONS: frozenset[bytes] = frozenset()


class RequestHead:
    """What the data path needs to know; `wire` is what is forwarded: request line and fields, each with its CR LF."""

    __slots__ = (
        "expects_continue", "host", "keep_alive", "length", "method", "minor", "request_id", "target", "upgrade", "wire",
    )  # fmt: skip

    method: bytes
    target: bytes
    minor: int
    host: bytes | None
    length: int
    keep_alive: bool
    upgrade: bool
    expects_continue: bool
    request_id: bytes | None
    wire: bytes


def parse_request_head(head: bytes, *, max_fields: int, max_target_bytes: int) -> RequestHead:
    """Read a head up to and including its empty line.

    Raises:
        Refused: with the reason that the client is told.
    """
    line = _LINE.match(head)
    if line is None:
        raise Refused(_why_bad_line(head[: head.find(b"\r\n")], max_target_bytes))
    parsed = RequestHead()
    parsed.method, parsed.target, minor = line.groups()
    parsed.minor = 1 if minor == b"1" else 0
    if parsed.method in _COMMON_METHODS:
        shown = head
    elif parsed.method in (b"CONNECT", b"TRACE"):
        raise Refused(Reason.METHOD_NOT_ALLOWED)
    else:
        shown = b"GET" + head[len(parsed.method) :]  # llhttp knows only some methods
    if len(parsed.target) > max_target_bytes:
        raise Refused(Reason.TARGET_TOO_LONG)
    controls = head.translate(None, f.TEXT)
    lines = len(controls) >> 1
    if lines > max_fields + 2:
        raise Refused(Reason.HEAD_TOO_LARGE)
    if controls != b"\r\n" * lines:
        raise Refused(Reason.BAD_FIELD)
    try:
        httptools.HttpRequestParser(None).feed_data(shown)
    except httptools.HttpParserUpgrade:
        pass  # llhttp stops where an upgrade would begin; whether there is one, `_read_fields` knows
    except httptools.HttpParserError as error:
        raise Refused(_why_llhttp_refuses(head)) from error
    _read_fields(head, line.end(), parsed)
    return parsed


def _why_bad_line(line: bytes, max_target_bytes: int) -> Reason:
    """Tell what is wrong with a request line."""
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[0] or b"\t" in line:
        return Reason.BAD_REQUEST_LINE
    method, target, version = parts
    if not _VERSION.fullmatch(version):
        return Reason.BAD_REQUEST_LINE
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        return Reason.VERSION_UNKNOWN
    if len(target) > max_target_bytes:
        return Reason.TARGET_TOO_LONG
    if not method.isalpha():
        return Reason.BAD_REQUEST_LINE
    return Reason.METHOD_UNKNOWN if len(method) > 32 else Reason.BAD_TARGET


def _why_llhttp_refuses(head: bytes) -> Reason:
    """llhttp sees framing before we do: say what it is about."""
    lowered = head.lower()
    has_length, has_coding = b"\r\ncontent-length:" in lowered, b"\r\ntransfer-encoding:" in lowered
    if has_length and has_coding:
        return Reason.AMBIGUOUS_FRAMING
    if has_length:
        return Reason.BAD_LENGTH
    return Reason.BAD_TRANSFER_CODING if has_coding else Reason.BAD_FIELD


def _read_fields(head: bytes, line_end: int, parsed: RequestHead) -> None:
    """Read the fields that matter, and settle what is forwarded."""
    host = length = coding = None
    options = _NO_OPTIONS
    websocket = expects_continue = parsed.upgrade = False
    parsed.request_id = None
    dropped: list[re.Match[bytes]] = []
    lowered = head.lower()
    for field in f.SPECIAL.finditer(lowered, line_end - 2):
        name, value = field.groups()
        value = value.strip(b" \t")
        code = f.CODES[name]
        if code == f.HOST:
            if host is not None:
                raise Refused(Reason.BAD_HOST)
            host = value
        elif code == f.CONTENT_LENGTH:
            if length is not None or len(value) > _MAX_LENGTH_DIGITS or not value.isdigit():
                raise Refused(Reason.BAD_LENGTH)
            length = value
        elif code == f.TRANSFER_ENCODING:
            if coding is not None or value != b"chunked" or not parsed.minor:
                raise Refused(Reason.BAD_TRANSFER_CODING)
            coding = value
        elif code == f.CONNECTION:
            options = options | f.connection_options(value)
            dropped.append(field)
        elif code == f.EXPECT:
            if value == b"100-continue":
                expects_continue = parsed.minor == 1
                dropped.append(field)
        elif code == f.UPGRADE:
            websocket = websocket or value == b"websocket"
            dropped.append(field)
        elif code == f.REQUEST_ID:
            if parsed.request_id is None and _REQUEST_ID.fullmatch(value):
                parsed.request_id = head[field.start(2) : field.end(2)].strip(b" \t")
            else:
                parsed.request_id = None
                dropped.append(field)
        elif code == f.DROP:
            dropped.append(field)
        else:
            raise Refused(Reason.BAD_FIELD)
    if length is None:
        parsed.length = 0 if coding is None else CHUNKED
    elif coding is not None:
        raise Refused(Reason.AMBIGUOUS_FRAMING)
    else:
        parsed.length = int(length)
    parsed.expects_continue = expects_continue and parsed.length != 0
    parsed.keep_alive = b"close" not in options and (parsed.minor == 1 or b"keep-alive" in options)
    if websocket and b"upgrade" in options and parsed.minor and parsed.method == b"GET":
        if length is not None or coding is not None:
            raise Refused(Reason.UPGRADE_WITH_BODY)
        parsed.upgrade = True
    _check_host(host, parsed)
    wire = head[:-2]
    if dropped:
        wire = f.without(wire, dropped)
        if not options <= f.ORDINARY_OPTIONS:
            wire = f.without_nominated(wire, options)
    target = parsed.target
    if not parsed.minor or target[0] != _SLASH:
        parsed.target = _origin_form(parsed.method, target, host)
        wire = b"%s %s HTTP/1.1%s" % (parsed.method, parsed.target, wire[line_end - 2 :])
    parsed.wire = wire


def _check_host(host: bytes | None, parsed: RequestHead) -> None:
    if host is None:
        if parsed.minor:
            raise Refused(Reason.BAD_HOST)
    elif not _HOST.fullmatch(host):
        raise Refused(Reason.BAD_HOST)
    parsed.host = host


def _origin_form(method: bytes, target: bytes, host: bytes | None) -> bytes:
    """Take scheme and authority off an absolute-form target; they must say what Host says (RFC 9112 §3.2.2)."""
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or b"@" in absolute[1]:
        raise Refused(Reason.BAD_TARGET)
    if host is None or absolute[1].lower() != host:
        raise Refused(Reason.BAD_HOST)
    rest = absolute[2]
    if not rest:
        return b"*" if method == b"OPTIONS" else b"/"
    return rest if rest.startswith(b"/") else b"/" + rest
