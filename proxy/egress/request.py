"""A head as a forward proxy gets it: `CONNECT host:port`, or an absolute-form target. Pure.

The request line is ours to read, for it is another one than a server gets; fields and framing are judged by
`http1.request_head`. HTTP/1.0 needs no Host. What is forwarded has the origin-form, and Host as it came.
"""

import re
from typing import Final

from proxy.errors import Reason, Refused
from proxy.http1.request_head import RequestHead, parse_request_head
from proxy.mechanisms.origin_names import split_authority

MAX_HEAD_BYTES: Final = 65_536
_MAX_FIELDS = 100
_MAX_TARGET_BYTES = 16_384
_HTTP_PORT = 80
_CONNECT = re.compile(rb"CONNECT ([!-~]{1,300}) HTTP/1\.([01])(?=\r\n)")
_ABSOLUTE = re.compile(
    rb"([A-Za-z]{1,32}) [Hh][Tt][Tt][Pp]://([!-.0->@-~]+)([/?][!-~]*)? HTTP/1\.([01])(?=\r\n)"
)


class ProxyRequest:
    """Where to, and what: `connect` asks for a tunnel, else `head` goes there. `spelled` is the host as it was written."""

    __slots__ = ("connect", "head", "host", "port", "spelled", "wire")

    def __init__(self, head: RequestHead, host: str, port: int, spelled: bytes, *, connect: bool) -> None:
        self.head = head
        self.host = host
        self.port = port
        self.spelled = spelled
        self.connect = connect
        self.wire = head.line + head.fields.wire
        if head.fields.host is None:
            self.wire += b"\r\nHost: " + spelled
        self.wire += b"\r\n\r\n"


def parse_proxy_request(head: bytes) -> ProxyRequest:
    """Read a head up to and including its empty line.

    Raises:
        Refused: with the reason that the homeserver is told.
    """
    connect = _CONNECT.match(head)
    if connect is not None:
        parsed = _parse(b"GET / HTTP/1." + connect[2] + head[connect.end() :])
        if parsed.fields.has_framing:
            raise Refused(Reason.BAD_TARGET)
        return _request(parsed, connect[1], None, connect=True)
    absolute = _ABSOLUTE.match(head)
    if absolute is None:
        raise Refused(_why_not(head))
    method, authority, rest, version = absolute.groups()
    if len(rest or b"") > _MAX_TARGET_BYTES:
        raise Refused(Reason.TARGET_TOO_LONG)
    path = rest if rest and rest.startswith(b"/") else b"/" + (rest or b"")
    if b"#" in path:
        raise Refused(Reason.BAD_TARGET)
    line = b"%s %s HTTP/1.%s" % (method, path, version)
    return _request(_parse(line + head[absolute.end() :]), authority, _HTTP_PORT, connect=False)


def _parse(head: bytes) -> RequestHead:
    return parse_request_head(head, max_fields=_MAX_FIELDS, max_target_bytes=_MAX_TARGET_BYTES)


def _request(
    parsed: RequestHead, authority: bytes, default_port: int | None, *, connect: bool
) -> ProxyRequest:
    place = split_authority(authority.decode("ascii"), default_port)
    if place is None:
        raise Refused(Reason.BAD_TARGET)
    said = parsed.fields.host
    if said is not None and not connect and split_authority(said.decode("ascii"), _HTTP_PORT) != place:
        raise Refused(Reason.BAD_HOST)
    return ProxyRequest(parsed, *place, authority, connect=connect)


def _why_not(head: bytes) -> Reason:
    """Tell what is wrong with a line that is neither."""
    parts = head[: head.find(b"\r\n")].split(b" ")
    if len(parts) != 3:
        return Reason.BAD_REQUEST_LINE
    if parts[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        return Reason.VERSION_UNKNOWN if parts[2].startswith(b"HTTP/") else Reason.BAD_REQUEST_LINE
    return Reason.BAD_TARGET
