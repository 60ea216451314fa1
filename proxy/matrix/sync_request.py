"""What the query of a long poll asks for, read so that no homeserver can read more into it. Pure.

Homeservers differ: Synapse (Twisted) splits at `;` too, takes the first of repeated names and lets Python's `int` read the
value (`+1`, ` 1 `, `1_000`); Dendrite (Go) drops pairs with `;` and takes the first; those on ruma refuse repeats. All undo
escapes in names and values. So a pair counts for the client (a position it goes on from, a timeout it waits for) only where
all of them see it, and against it (`full_state`) where one of them might.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

#: What a long poll does at the homeserver (§5.5): wait only, answer at once, or put a first sync together.
WAITS: Final = 0
INSTANT: Final = 1
FIRST: Final = 2

_PLAIN: Final = re.compile(rb"&(since|timeout|full_state|pos|from)=([^&]*)")
#: A name with escapes, or pairs parted by `;`: worth reading every pair.
_ODD: Final = re.compile(rb"&[^=&]*[%+;]|;")
_NUMBER: Final = re.compile(rb"[0-9]{1,18}")
_FALSE: Final = (b"", b"false")


def work_of(query: bytes, position: bytes, *, instant_by_default: bool = True) -> int:
    """Tell WAITS, INSTANT or FIRST. `position` is the name of what a client goes on from: `since`, `pos` or `from`."""
    began = instant = waits = False
    for name, value in _pairs(query):
        if name == b"timeout":
            if value.isdigit() and value.strip(b"0"):
                waits = True
            else:
                instant = True
        elif name == position:
            if not value:
                return FIRST
            began = True
        elif name == b"full_state" and value not in _FALSE:
            return FIRST
    if not began:
        return FIRST
    return INSTANT if instant or (instant_by_default and not waits) else WAITS


def sync_timeout_s(target: bytes) -> float | None:
    """Give the `timeout` a long poll asks for, in seconds; None where the query does not say it clearly."""
    values = [value for name, value in _pairs(target.partition(b"?")[2]) if name == b"timeout"]
    return int(values[0]) / 1000 if len(values) == 1 and _NUMBER.fullmatch(values[0]) else None


def _pairs(query: bytes) -> list[tuple[bytes, bytes]]:
    padded = b"&" + query
    if (b"%" in query or b"+" in query or b";" in query) and _ODD.search(padded):
        return _odd_pairs(query)
    return _PLAIN.findall(padded)


def _odd_pairs(query: bytes) -> list[tuple[bytes, bytes]]:
    """Read every pair with its escapes undone. What a `;` parts off may be seen or not: it is no value to go on from."""
    pairs = []
    for piece in query.split(b"&"):
        parts = piece.split(b";")
        for part in parts:
            name, _, value = part.partition(b"=")
            name = unquote_to_bytes(name.replace(b"+", b" "))
            if len(parts) > 1 and name != b"full_state":
                value = b""
            pairs.append((name, unquote_to_bytes(value.replace(b"+", b" "))))
    return pairs
