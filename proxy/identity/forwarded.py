"""What proxies said about whom they speak for: `X-Forwarded-For`, or `Forwarded` (RFC 7239), read from the right. Pure.

From the right, since only the right end is written by who spoke last; what stands left of it may be a client's invention. So
no comma or quote further left can change how an entry is read. An entry that names no address, also an empty one, is given
as None and not passed over: passing over it would believe whatever stands before it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from proxy.identity.networks import Address, parse_address

#: Who is named, and by which scheme that one came (`http`, `https`, or None where it is not said).
Entry = tuple[Address | None, bytes | None]

_LONGEST_ENTRY: Final = 512  # bytes
_V4_WITH_PORT: Final = re.compile(r"([0-9.]+):[0-9]{1,5}")
_V6_IN_BRACKETS: Final = re.compile(r"\[([^\]]*)\](?::[0-9]{1,5})?")
_PAIR: Final = re.compile(
    rb"""[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=("(?:[^"\\]|\\.)*"|[^"\\;, \t]*)[ \t]*(?:;|$)""", re.DOTALL
)
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_QUOTE: Final = re.compile(rb'(?<!\\)(?:\\\\)*"')
_NOBODY: Final[Entry] = (None, None)


def entries_of_x_forwarded_for(value: bytes) -> Iterator[Entry]:
    """Give the entries of all `X-Forwarded-For` fields joined by commas, the last first."""
    while True:
        value, comma, entry = value.rpartition(b",")
        yield _node(entry.strip(b" \t")), None
        if not comma:
            return


def entries_of_forwarded(value: bytes) -> Iterator[Entry]:
    """Give the elements of all `Forwarded` fields joined by commas, the last first."""
    while True:
        value, comma, element = value.rpartition(b",")
        while len(_QUOTE.findall(element)) % 2:  # that comma was inside of quotes
            if not comma or len(element) > _LONGEST_ENTRY:
                yield _NOBODY
                return
            value, comma, before = value.rpartition(b",")
            element = before + b"," + element
        yield _element(element)
        if not comma:
            return


#: By the names that `clients.forwarded_header` may have.
READERS: Final[dict[str, Callable[[bytes], Iterator[Entry]]]] = {
    "X-Forwarded-For": entries_of_x_forwarded_for,
    "Forwarded": entries_of_forwarded,
}


def _element(element: bytes) -> Entry:
    """Read `for=…;proto=…;by=…`; a parameter given twice, or anything malformed, names nobody."""
    if len(element) > _LONGEST_ENTRY:
        return _NOBODY
    parameters: dict[bytes, bytes] = {}
    position = 0
    while position < len(element):
        pair = _PAIR.match(element, position)
        if pair is None or pair[1].lower() in parameters:
            return _NOBODY
        value = pair[2]
        if value.startswith(b'"'):
            value = _ESCAPE.sub(rb"\1", value[1:-1])
        parameters[pair[1].lower()] = value
        position = pair.end()
    proto = parameters.get(b"proto", b"").lower()
    return _node(parameters.get(b"for", b"")), proto if proto in (b"http", b"https") else None


def _node(text: bytes) -> Address | None:
    """Read an address with or without port and brackets; `unknown`, `_hidden`, the unspecified one and garbage are nobody."""
    if not text or len(text) > _LONGEST_ENTRY or not text.isascii():
        return None
    node = text.decode("ascii")
    stripped = _V4_WITH_PORT.fullmatch(node) or _V6_IN_BRACKETS.fullmatch(node)
    address = parse_address(stripped[1] if stripped else node)
    return None if address is None or address.is_unspecified else address
