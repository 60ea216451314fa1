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
_TIMEOUT: Final = re.compile(rb"&timeout=([^&]*)")
_SEPARATED: Final = re.compile(rb"(?<![^&;])([^=&;]+)=([^&;]*)")
_NUMBER: Final = re.compile(rb"[0-9]{1,18}")
_LENIENT_NUMBER: Final = re.compile(rb"[ \t\n\r\x0b\x0c]*\+?([0-9]+(?:_[0-9]+)*)[ \t\n\r\x0b\x0c]*")
_MANY_DIGITS: Final = 18
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


def lower_timeout(target: bytes, max_timeout_ms: int) -> tuple[bytes, float | None]:
    """Give the target with any `timeout` above the ceiling lowered to it and no other byte changed, and what it then asks for.

    That is in seconds, None where homeservers may read it in several ways. A value is above if one of them would take it for
    a number above; all others stay as they are, malformed or not.
    """
    path, mark, query = target.partition(b"?")
    values = _TIMEOUT.findall(b"&" + query)
    if len(values) == 1 and values[0].isdigit() and not _is_odd(query):
        number = _maybe_number(values[0]) or 0
        if number <= max_timeout_ms:
            return target, number / 1000
    elif not values and not _is_odd(query):
        return target, None
    lowered = _SEPARATED.sub(lambda pair: _lowered(pair, max_timeout_ms), query)
    return path + mark + lowered, _clear_timeout_s(lowered)


def sync_timeout_s(target: bytes) -> float | None:
    """Give the `timeout` a long poll asks for, in seconds; None where the query does not say it clearly."""
    return _clear_timeout_s(target.partition(b"?")[2])


def _clear_timeout_s(query: bytes) -> float | None:
    values = [value for name, value in _pairs(query) if name == b"timeout"]
    return int(values[0]) / 1000 if len(values) == 1 and _NUMBER.fullmatch(values[0]) else None


def _lowered(pair: re.Match[bytes], max_timeout_ms: int) -> bytes:
    name, value = pair[1], pair[2]
    if _unescaped(name) != b"timeout":
        return pair[0]
    number = _maybe_number(_unescaped(value))
    if number is None or number <= max_timeout_ms:
        return pair[0]
    return name + b"=%d" % max_timeout_ms


def _maybe_number(value: bytes) -> int | None:
    """Read a number as the most lenient of them does, Python's `int`; one of many digits is just large."""
    match = _LENIENT_NUMBER.fullmatch(value)
    if match is None:
        return None
    digits = match[1].replace(b"_", b"").lstrip(b"0")
    return int(digits or b"0") if len(digits) <= _MANY_DIGITS else 10**_MANY_DIGITS


def _pairs(query: bytes) -> list[tuple[bytes, bytes]]:
    return _odd_pairs(query) if _is_odd(query) else _PLAIN.findall(b"&" + query)


def _is_odd(query: bytes) -> bool:
    return (b"%" in query or b"+" in query or b";" in query) and _ODD.search(b"&" + query) is not None


def _odd_pairs(query: bytes) -> list[tuple[bytes, bytes]]:
    """Read every pair with its escapes undone. What a `;` parts off may be seen or not: it is no value to go on from."""
    pairs = []
    for piece in query.split(b"&"):
        parts = piece.split(b";")
        for part in filter(None, parts):
            name, _, value = part.partition(b"=")
            name = _unescaped(name)
            if len(parts) > 1 and name != b"full_state":
                value = b""
            pairs.append((name, _unescaped(value)))
    return pairs


def _unescaped(text: bytes) -> bytes:
    if b"%" not in text and b"+" not in text:
        return text
    return unquote_to_bytes(text.replace(b"+", b" "))
