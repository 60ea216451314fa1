"""The PROXY protocol's header, versions 1 and 2: who connected to the proxy in front (behaviour.md §1.6). Pure; strict.

It stands before the first byte of a connection, and only trusted peers may send it: the caller checks that. `read` is asked
again with all bytes so far until it gives a result, so any cut of the bytes gives the same; what cannot become a header
is refused at its first wrong byte. Bound: 107 bytes in version 1 (the protocol's own), 16 + 4096 in version 2, where all
optional fields but a client's certificate fit in a quarter. These fields are passed over.
"""

import ipaddress
import re
from typing import Final

#: Given as the source of a connection that came over a Unix socket.
UNIX: Final = "unix"

_V1_START: Final = b"PROXY "
_V1_MAX_BYTES: Final = 107
_V1_IP: Final = re.compile(rb"PROXY TCP([46]) ([0-9A-Fa-f.:]+) ([0-9A-Fa-f.:]+) ([0-9]{1,5}) ([0-9]{1,5})")
_V1_UNKNOWN: Final = re.compile(rb"PROXY UNKNOWN(?: [ -~]*)?")
_V2_START: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_FIXED_BYTES: Final = 16
_V2_MAX_REST_BYTES: Final = 4096
_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED: Final = 0x00
#: Family and transport → the bytes of both addresses. Datagrams cannot have come over this connection.
_V2_ADDRESS_BYTES: Final = {_UNSPECIFIED: 0, 0x11: 12, 0x21: 36, 0x31: 216}
_TLV_HEAD_BYTES: Final = 3


class BadProxyHeaderError(Exception):
    """The bytes are no PROXY header; the connection is closed."""


class ProxyHeader:
    """A header. `source` is the client's address, `unix`, or None for the peer itself; `length` the header's bytes."""

    __slots__ = ("length", "source")

    def __init__(self, source: str | None, length: int) -> None:
        self.source = source
        self.length = length


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """Read the header at the beginning of all bytes a connection sent so far; None while more is needed.

    Raises:
        BadProxyHeaderError: with words for the log.
    """
    if data.startswith(_V2_START):
        return _read_v2(data)
    if data.startswith(_V1_START):
        return _read_v1(data)
    if _V1_START.startswith(data) or _V2_START.startswith(data):
        return None
    raise BadProxyHeaderError("does not begin with a PROXY header")


def _read_v1(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r", 0, _V1_MAX_BYTES - 1)
    line = data[:end] if end >= 0 else data
    if end < 0:
        if len(data) > _V1_MAX_BYTES - 2:
            raise BadProxyHeaderError("has a line of more than 107 bytes")
        if b"\n" in line:
            raise BadProxyHeaderError("has a line that does not end in CR LF")
        return None
    if len(data) == end + 1:
        return None
    if data[end + 1] != ord("\n"):
        raise BadProxyHeaderError("has a line that does not end in CR LF")
    length = end + 2
    if _V1_UNKNOWN.fullmatch(line):
        return ProxyHeader(None, length)
    match = _V1_IP.fullmatch(line)
    if match is None or max(int(match[4]), int(match[5])) > 0xFFFF:
        raise BadProxyHeaderError("has a malformed line")
    try:
        sort = ipaddress.IPv4Address if match[1] == b"4" else ipaddress.IPv6Address
        source = sort(match[2].decode("ascii"))
        sort(match[3].decode("ascii"))
    except ValueError:
        raise BadProxyHeaderError("has a malformed address") from None
    return ProxyHeader(str(source), length)


def _read_v2(data: bytes) -> ProxyHeader | None:
    command = data[12] if len(data) > 12 else None
    if command not in (None, _LOCAL, _PROXY):
        raise BadProxyHeaderError("has an unknown version or command")
    if len(data) < _V2_FIXED_BYTES:
        return None
    family = data[13]
    rest = int.from_bytes(data[14:16], "big")
    if rest > _V2_MAX_REST_BYTES:
        raise BadProxyHeaderError("is too long")
    if command == _LOCAL:
        family = _UNSPECIFIED
    needed = _V2_ADDRESS_BYTES.get(family)
    if needed is None or rest < needed:
        raise BadProxyHeaderError("has an unknown family, or addresses cut short")
    length = _V2_FIXED_BYTES + rest
    if len(data) < length:
        return None
    if family == _UNSPECIFIED:
        return ProxyHeader(None, length)  # what follows is to be ignored, whatever it is
    _check_fields(data[_V2_FIXED_BYTES + needed : length])
    if family == 0x31:
        return ProxyHeader(UNIX, length)
    size = 4 if family == 0x11 else 16
    source = ipaddress.ip_address(data[_V2_FIXED_BYTES : _V2_FIXED_BYTES + size])
    return ProxyHeader(str(source), length)


def _check_fields(rest: bytes) -> None:
    """Optional fields must fill the header exactly; what they say is not used."""
    position = 0
    while position < len(rest):
        if position + _TLV_HEAD_BYTES > len(rest):
            raise BadProxyHeaderError("has an optional field cut short")
        position += _TLV_HEAD_BYTES + int.from_bytes(rest[position + 1 : position + 3], "big")
    if position != len(rest):
        raise BadProxyHeaderError("has an optional field cut short")
