"""A request's head, from raw bytes to what is known about it. Pure; strict; never repairs.

Promise: what is returned re-parses, anywhere, to the same message. A head that two servers could read in two ways is
refused with its reason (behaviour.md §9.3, RFC 9112). Two judges must agree: the checks here and llhttp.
The head's size was checked by the caller, over segments, before this is called.
"""

import re
from typing import Any, Final

import httptools

from proxy.errors import Reason, Refused
from proxy.http1.fields import (
    AUTHORIZATION,
    CODES,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    FAIRGATE_CLASS,
    FIRST_DROPPED,
    FORWARDED,
    FORWARDED_FOR,
    FORWARDED_PROTO,
    HOST,
    IMITATION,
    MAX_OPTIONS,
    ORDINARY_OPTIONS,
    REQUEST_ID,
    SPECIAL,
    TEXT,
    TRANSFER_ENCODING,
    UPGRADE,
    connection_options,
    without,
    without_nominated,
)
from proxy.http1.partial_head import why_hopeless

#: `length` of a chunked body; other lengths are bytes.
CHUNKED: Final = -1
_MAX_LENGTH_DIGITS = 18  # below 2**63, so no server can overflow on it
_LINE = re.compile(rb'([A-Za-z]{1,32}) ([!"$-~]+) HTTP/1\.([01])(?=\r\n)')
_COMMON_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"})
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_HOST = re.compile(rb"(?:[a-z0-9._~!$&'()*+;=%-]+|\[[0-9a-f:.]+(?:%[0-9a-z._~-]+)?\])(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://([^/?]*)(.*)")
_SLASH = ord("/")
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_NO_OPTIONS: frozenset[bytes] = frozenset()
#: Clients send the same fields with every request of a connection, so a block that was read is not read again. The
#: memory is short (`forget_fields` four times a second), since tokens are in it, and small.
_MEMORY_ENTRIES = 1024
MEMORY_BLOCK_BYTES = 2048
_memory: dict[bytes, "RequestFields"] = {}


class RequestFields:
    """What the fields of a request say; `wire` is those that are forwarded, each behind its CR LF.

    Not to be changed, but a `wire` above `MEMORY_BLOCK_BYTES`, which no other request shares, may be dropped.

    `authorization`, `forwarded_for`, `forwarded` and `forwarded_proto` are the raw values in order, () where there are none;
    of these only Authorization is forwarded. `access` is for who reads the token: what it made of them.
    """

    __slots__ = (
        "access",
        "authorization",
        "background",
        "expects_continue",
        "forwarded",
        "forwarded_for",
        "forwarded_proto",
        "has_framing",
        "host",
        "keep_alive",
        "length",
        "request_id",
        "websocket",
        "wire",
    )

    host: bytes | None
    access: Any
    authorization: tuple[bytes, ...]
    background: bool
    forwarded: tuple[bytes, ...]
    forwarded_for: tuple[bytes, ...]
    forwarded_proto: tuple[bytes, ...]
    length: int
    has_framing: bool
    keep_alive: bool
    websocket: bool
    expects_continue: bool
    request_id: bytes | None
    wire: bytes


class RequestHead:
    """What the data path needs to know; `line` and `fields.wire` are what is forwarded."""

    __slots__ = ("fields", "line", "method", "minor", "target", "upgrade")

    def __init__(
        self, method: bytes, target: bytes, minor: int, line: bytes, fields: RequestFields, *, upgrade: bool
    ) -> None:
        self.method = method
        self.target = target
        self.minor = minor
        self.line = line
        self.fields = fields
        self.upgrade = upgrade


def parse_request_head(head: bytes, *, max_fields: int, max_target_bytes: int) -> RequestHead:
    """Read a head up to and including its empty line.

    Raises:
        Refused: with the reason that the client is told.
    """
    match = _LINE.match(head)
    if match is None:
        reason = _why_bad_line(head[: head.find(b"\r\n")], max_target_bytes)
        raise Refused(_reason_in_any_cut(head, reason, max_target_bytes))
    method, target, version = match.groups()
    if method not in _COMMON_METHODS and method in (b"CONNECT", b"TRACE"):
        raise Refused(_reason_in_any_cut(head, Reason.METHOD_NOT_ALLOWED, max_target_bytes))
    if len(target) > max_target_bytes:
        raise Refused(_reason_in_any_cut(head, Reason.TARGET_TOO_LONG, max_target_bytes))
    end = match.end()
    block = head[end:]
    line = head[:end]
    if version == b"1":
        minor = 1
        fields = _memory.get(block)
        if fields is None:
            fields = _read_fields(block, max_fields, http11=True)
            if len(_memory) < _MEMORY_ENTRIES and len(block) <= MEMORY_BLOCK_BYTES:
                _memory[block] = fields
    else:
        minor = 0
        fields = _read_fields(block, max_fields, http11=False)
    if not minor or target[0] != _SLASH:
        target = _origin_form(method, target, fields.host)
        line = b"%s %s HTTP/1.1" % (method, target)
    upgrade = fields.websocket and method == b"GET" and minor == 1
    if upgrade and fields.has_framing:
        raise Refused(Reason.UPGRADE_WITH_BODY)
    return RequestHead(method, target, minor, line, fields, upgrade=upgrade)


def forget_fields() -> None:
    """Let go of the fields read lately; called four times a second."""
    _memory.clear()


def _reason_in_any_cut(head: bytes, reason: Reason, max_target_bytes: int) -> Reason:
    """Give what the client would have been told, had the head come byte by byte: what is seen before its end comes first."""
    head = b"\r\n" + head  # the empty line that may stand before it, and was taken off
    hopeless = why_hopeless(head, 0, max_head_bytes=len(head), max_target_bytes=max_target_bytes)
    return reason if hopeless is None else hopeless


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
    if not _TOKEN.fullmatch(method):
        return Reason.BAD_REQUEST_LINE
    return Reason.BAD_TARGET if method.isalpha() and len(method) <= 32 else Reason.METHOD_UNKNOWN


def _why_llhttp_refuses(block: bytes) -> Reason:
    """Llhttp sees framing before we do: say what it is about."""
    lowered = block.lower()
    has_length, has_coding = b"\r\ncontent-length:" in lowered, b"\r\ntransfer-encoding:" in lowered
    if has_length and has_coding:
        return Reason.AMBIGUOUS_FRAMING
    if has_length:
        return Reason.BAD_LENGTH
    return Reason.BAD_TRANSFER_CODING if has_coding else Reason.BAD_FIELD


def _judge(block: bytes, max_fields: int) -> None:
    """Whole lines, no controls, not too many, and no objection from llhttp."""
    controls = block.translate(None, TEXT)
    lines = len(controls) >> 1
    if controls != b"\r\n" * lines:
        raise Refused(Reason.BAD_FIELD)
    if lines > max_fields + 2:
        raise Refused(Reason.HEAD_TOO_LARGE)
    try:
        httptools.HttpRequestParser(None).feed_data(b"POST / HTTP/1.1" + block)
    except httptools.HttpParserUpgrade:
        pass  # llhttp stops where an upgrade would begin; whether there is one, the caller finds out
    except httptools.HttpParserError as error:
        raise Refused(_why_llhttp_refuses(block)) from error


def _read_fields(block: bytes, max_fields: int, *, http11: bool) -> RequestFields:
    """Read the fields that matter, and settle which are forwarded."""
    _judge(block, max_fields)
    values: dict[int, list[bytes]] = {}
    dropped: list[re.Match[bytes]] = []
    for field in SPECIAL.finditer(block.lower()):
        code = CODES[field[1]]
        value = block[field.start(2) : field.end(2)].strip(b" \t")
        if code >= FIRST_DROPPED:
            dropped.append(field)
        elif code == EXPECT and value.lower() == b"100-continue":
            dropped.append(field)  # answered by us, and only once the body may be read
        elif code == REQUEST_ID and (code in values or not _REQUEST_ID.fullmatch(value)):
            dropped.append(field)
            continue
        values.setdefault(code, []).append(value)
    if IMITATION in values:
        raise Refused(Reason.BAD_FIELD)
    parsed = RequestFields()
    _read_host(parsed, values.get(HOST), http11=http11)
    _read_framing(parsed, values.get(CONTENT_LENGTH), values.get(TRANSFER_ENCODING), http11=http11)
    expectations = values.get(EXPECT, ())
    parsed.expects_continue = (
        http11 and parsed.length != 0 and any(value.lower() == b"100-continue" for value in expectations)
    )
    parsed.request_id = values[REQUEST_ID][0] if REQUEST_ID in values else None
    parsed.websocket = any(value.lower() == b"websocket" for value in values.get(UPGRADE, ()))
    parsed.access = None
    parsed.authorization = tuple(values.get(AUTHORIZATION, ()))
    parsed.forwarded_for = tuple(values.get(FORWARDED_FOR, ()))
    parsed.forwarded = tuple(values.get(FORWARDED, ()))
    parsed.forwarded_proto = tuple(values.get(FORWARDED_PROTO, ()))
    parsed.background = any(value.lower() == b"background" for value in values.get(FAIRGATE_CLASS, ()))
    connection = [value.lower() for value in values.get(CONNECTION, ())]
    _settle(parsed, without(block[:-4], dropped), connection, http11=http11)
    return parsed


def _read_host(parsed: RequestFields, hosts: list[bytes] | None, *, http11: bool) -> None:
    if hosts is None:
        if http11:
            raise Refused(Reason.BAD_HOST)
        parsed.host = None
        return
    parsed.host = hosts[0].lower()
    if len(hosts) > 1 or not _HOST.fullmatch(parsed.host):
        raise Refused(Reason.BAD_HOST)


def _read_framing(
    parsed: RequestFields, lengths: list[bytes] | None, codings: list[bytes] | None, *, http11: bool
) -> None:
    """Where the body ends, if there is one; anything two servers could read in two ways is refused."""
    if lengths and (len(lengths) > 1 or len(lengths[0]) > _MAX_LENGTH_DIGITS or not lengths[0].isdigit()):
        raise Refused(Reason.BAD_LENGTH)
    if codings and (len(codings) > 1 or codings[0].lower() != b"chunked" or not http11):
        raise Refused(Reason.BAD_TRANSFER_CODING)
    if lengths and codings:
        raise Refused(Reason.AMBIGUOUS_FRAMING)
    parsed.has_framing = bool(lengths or codings)
    parsed.length = CHUNKED if codings else int(lengths[0]) if lengths else 0


def _settle(parsed: RequestFields, wire: bytes, connection: list[bytes], *, http11: bool) -> None:
    """Do what `Connection` says; `wire` is without the fields that never go on."""
    options = connection_options(connection) if connection else _NO_OPTIONS
    if len(options) > MAX_OPTIONS:
        raise Refused(Reason.HEAD_TOO_LARGE)
    parsed.keep_alive = b"close" not in options and (http11 or b"keep-alive" in options)
    parsed.websocket = parsed.websocket and b"upgrade" in options
    parsed.wire = wire if options <= ORDINARY_OPTIONS else without_nominated(wire, options)


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
