"""A request's head, from raw bytes to what is known about it. Pure; strict; never repairs.

Promise: what is returned re-parses, anywhere, to the same message. A head that two servers could read in two ways is
refused with its reason (behaviour.md §9.3, RFC 9112). Two judges must agree: the checks here and llhttp.
Sizes were checked by the caller, over segments, before this is called.
"""

import re
from typing import Final

import httptools

from proxy.errors import Reason, Refused
from proxy.http1 import fields as f

#: `length` of a chunked body; other lengths are bytes.
CHUNKED: Final = -1
_MAX_LENGTH_DIGITS = 18  # below 2**63, so no server can overflow on it
_COMMON_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"})
_OTHER_METHOD = re.compile(rb"[A-Za-z]{1,32}")
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+;=%-]+|\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\])(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://([^/?#]*)(.*)")
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")


class RequestHead:
    """What the data path needs to know; `lines` is the request line and the fields to forward, in order."""

    __slots__ = (
        "expects_continue", "host", "keep_alive", "length", "lines", "method", "minor", "request_id", "target", "upgrade",
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
    lines: list[bytes]


def parse_request_head(head: bytes, *, max_fields: int, max_target_bytes: int) -> RequestHead:
    """Read a head up to and including its empty line.

    Raises:
        Refused: with the reason that the client is told.
    """
    lines = head[:-4].split(b"\r\n")
    parsed = RequestHead()
    _read_request_line(lines, parsed, max_target_bytes)
    if len(lines) > max_fields + 1:
        raise Refused(Reason.HEAD_TOO_LARGE)
    if not f.has_only_whole_lines(head, len(lines) + 1):
        raise Refused(Reason.BAD_FIELD)
    _read_fields(lines, parsed)
    _ask_llhttp(head, parsed)
    return parsed


def _read_request_line(lines: list[bytes], parsed: RequestHead, max_target_bytes: int) -> None:
    line = lines[0]
    parts = line.split(b" ")
    if len(parts) != 3:
        raise Refused(Reason.BAD_REQUEST_LINE)
    method, target, version = parts
    if version == b"HTTP/1.1":
        parsed.minor = 1
    elif version == b"HTTP/1.0":
        parsed.minor = 0
    else:
        raise Refused(Reason.VERSION_UNKNOWN if _VERSION.fullmatch(version) else Reason.BAD_REQUEST_LINE)
    if method not in _COMMON_METHODS:
        _check_other_method(method)
    if len(target) > max_target_bytes:
        raise Refused(Reason.TARGET_TOO_LONG)
    if not target.isascii() or b"#" in target or b"\t" in line:
        raise Refused(Reason.BAD_TARGET)
    parsed.method = method
    parsed.target = target


def _check_other_method(method: bytes) -> None:
    if method in (b"CONNECT", b"TRACE"):
        raise Refused(Reason.METHOD_NOT_ALLOWED)
    if not _OTHER_METHOD.fullmatch(method):
        raise Refused(Reason.METHOD_UNKNOWN if method.isalpha() else Reason.BAD_REQUEST_LINE)


def _read_fields(lines: list[bytes], parsed: RequestHead) -> None:
    host = length = coding = request_id = None
    options: frozenset[bytes] = frozenset()
    websocket = expects_continue = False
    dropped: list[int] = []
    known = f.KNOWN
    for index in range(1, len(lines)):
        name, colon, value = lines[index].partition(b":")
        code = known.get(name)
        if code is None:
            code = f.field_code(name)
        if not colon:
            raise Refused(Reason.BAD_FIELD)
        if code == f.ORDINARY:
            continue
        value = value.strip(b" \t")
        if code == f.HOST:
            if host is not None:
                raise Refused(Reason.BAD_HOST)
            host = value
        elif code == f.CONTENT_LENGTH:
            if length is not None or len(value) > _MAX_LENGTH_DIGITS or not value.isdigit():
                raise Refused(Reason.BAD_LENGTH)
            length = value
        elif code == f.TRANSFER_ENCODING:
            if coding is not None or value.lower() != b"chunked" or parsed.minor == 0:
                raise Refused(Reason.BAD_TRANSFER_CODING)
            coding = value
        elif code == f.CONNECTION:
            options |= f.connection_options(value)
            dropped.append(index)
        elif code == f.EXPECT:
            if value.lower() == b"100-continue":
                expects_continue = parsed.minor == 1
                dropped.append(index)
        elif code == f.UPGRADE:
            websocket = websocket or value.lower() == b"websocket"
            dropped.append(index)
        elif code == f.REQUEST_ID:
            if request_id is None and _REQUEST_ID.fullmatch(value):
                request_id = value
            else:
                dropped.append(index)
        elif code == f.DROP:
            dropped.append(index)
        else:
            raise Refused(Reason.BAD_FIELD)
    if length is not None and coding is not None:
        raise Refused(Reason.AMBIGUOUS_FRAMING)
    parsed.length = CHUNKED if coding is not None else int(length) if length is not None else 0
    parsed.expects_continue = expects_continue and parsed.length != 0
    parsed.request_id = request_id
    parsed.keep_alive = b"close" not in options if parsed.minor else b"keep-alive" in options and b"close" not in options
    parsed.upgrade = websocket and b"upgrade" in options and parsed.minor == 1 and parsed.method == b"GET"
    if parsed.upgrade and (length is not None or coding is not None):
        raise Refused(Reason.UPGRADE_WITH_BODY)
    _check_host_and_target(lines, parsed, host)
    _keep(lines, parsed, dropped, options)


def _check_host_and_target(lines: list[bytes], parsed: RequestHead, host: bytes | None) -> None:
    if host is None:
        if parsed.minor == 1:
            raise Refused(Reason.BAD_HOST)
    elif not _HOST.fullmatch(host):
        raise Refused(Reason.BAD_HOST)
    parsed.host = host
    target = parsed.target
    if target[:1] != b"/":
        parsed.target = _origin_form(parsed.method, target, host)
    if parsed.minor == 0 or parsed.target is not target:
        lines[0] = b"%s %s HTTP/1.1" % (parsed.method, parsed.target)


def _origin_form(method: bytes, target: bytes, host: bytes | None) -> bytes:
    """Take scheme and authority off an absolute-form target; they must say what Host says (RFC 9112 §3.2.2)."""
    if target == b"*" and method == b"OPTIONS":
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or b"@" in absolute[1]:
        raise Refused(Reason.BAD_TARGET)
    if host is None or absolute[1].lower() != host.lower():
        raise Refused(Reason.BAD_HOST)
    rest = absolute[2]
    if not rest:
        return b"*" if method == b"OPTIONS" else b"/"
    return rest if rest.startswith(b"/") else b"/" + rest


def _keep(lines: list[bytes], parsed: RequestHead, dropped: list[int], options: frozenset[bytes]) -> None:
    """Leave in `lines` what is forwarded."""
    for index in reversed(dropped):
        del lines[index]
    nominated = {option for option in options if f.may_be_nominated(option)} if options else None
    if nominated:
        lines[1:] = [line for line in lines[1:] if line.partition(b":")[0].lower() not in nominated]
    parsed.lines = lines


def _ask_llhttp(head: bytes, parsed: RequestHead) -> None:
    """Have llhttp read the same bytes. A method it does not know is shown to it as GET; ours was checked above."""
    if parsed.method not in _COMMON_METHODS:
        head = b"GET" + head[len(parsed.method) :]
    try:
        httptools.HttpRequestParser(_LISTENER).feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # llhttp stops where an upgrade would begin; whether there is one, the caller knows
    except httptools.HttpParserError as error:
        raise Refused(Reason.BAD_FIELD) from error


class _Listener:
    """llhttp only judges here, so nothing is listened to."""


_LISTENER = _Listener()
