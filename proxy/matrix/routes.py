"""What kind of request this is, by method and raw path (behaviour.md §4.1): the kind sets the response deadline. Pure.

Homeservers match the path undecoded, so the raw path decides; a path that escapes letters is looked at decoded too, and the
kind that comes later in `RouteClass` wins (vital only ever by the raw path).
"""

import re
from enum import IntEnum
from typing import Final
from urllib.parse import unquote_to_bytes


class RouteClass(IntEnum):
    """In order of strictness; the label for people is `name.lower()`."""

    VITAL = 0
    REQUESTS = 1
    MEDIA = 2
    HISTORY = 3
    REMOTE = 4
    FEDERATION = 5
    SYNC = 6
    FIRST_SYNC = 7


# Members of an enumeration are slow to look up on it, and this runs for every request.
_VITAL, _REQUESTS, _MEDIA, _HISTORY, _REMOTE, _FEDERATION, _SYNC, _FIRST_SYNC = RouteClass
_PREFIXES: Final = frozenset({b"r0", b"v1", b"v2", b"v3", b"v4", b"unstable", b"v2_alpha", b"api"})
_LOOK_CLOSER: Final = None  # these take more than the first segment to tell
_SLIDING: Final = frozenset({b"org.matrix.simplified_msc3575", b"org.matrix.msc3575"})
_BY_FIRST_SEGMENT: Final[dict[bytes, RouteClass | None]] = {
    b"auth_metadata": _VITAL,
    b"initialSync": _FIRST_SYNC,
    b"search": _HISTORY,
    b"media": _MEDIA,
    b"join": _REMOTE,
    b"knock": _REMOTE,
    b"directory": _REMOTE,
    b"profile": _REMOTE,
    b"publicRooms": _REMOTE,
    b"room_summary": _REMOTE,
    **dict.fromkeys((b"v1", b"rooms", b"keys", b"sync", b"events", *_SLIDING), _LOOK_CLOSER),
}
_BY_ROOM_SEGMENT: Final = {
    b"messages": _HISTORY,
    b"context": _HISTORY,
    b"relations": _HISTORY,
    b"initialSync": _FIRST_SYNC,
    b"join": _REMOTE,
    b"hierarchy": _REMOTE,
}
#: Escapes of what names endpoints: letters, digits, `-`, `.`, `/`, `_`, `~`. Those of ids (`%21`, `%3A`, `%40`) are everyday.
_EVASIVE: Final = re.compile(rb"%(?:2[DEFdef]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")
_TIMEOUT: Final = re.compile(rb"[?&]timeout=([0-9]{1,9})(?:&|$)")
_SINCE: Final = re.compile(rb"[?&](?:since|pos|from)=[^&]")


def classify(method: bytes, target: bytes) -> RouteClass:
    """Give the kind of a request. `target` is in origin-form, as it came."""
    path = target.partition(b"?")[0]
    if b"%" in path and _EVASIVE.search(path):
        return max(_by_path(method, path, target), _by_path(method, unquote_to_bytes(path), target))
    return _by_path(method, path, target)


def _by_path(method: bytes, path: bytes, target: bytes) -> RouteClass:
    if method == b"OPTIONS":
        return _VITAL
    parts = path.split(b"/", 6)  # "", "_matrix", "client", version, first, second, the rest
    if len(parts) > 4 and parts[2] == b"client" and parts[1] == b"_matrix":
        if parts[3] not in _PREFIXES:
            return _REQUESTS
        route = _BY_FIRST_SEGMENT.get(parts[4], _REQUESTS)
        return _closer(path, target) if route is None else route
    if path.startswith((b"/_matrix/federation/", b"/_matrix/key/")):
        return _FEDERATION
    if path.startswith(b"/_matrix/media/"):
        return _MEDIA
    vital = path in (b"/_matrix/client/versions", b"/health") or path.startswith(b"/.well-known/")
    return _VITAL if vital else _REQUESTS


def _closer(path: bytes, target: bytes) -> RouteClass:
    """Tell apart what begins alike: rooms, keys, long polls, and the old prefix of two segments."""
    rest = path.split(b"/")[4:]
    if path.startswith(b"/_matrix/client/api/"):
        rest = rest[1:]
    first = rest[0] if rest else b""
    if first == b"rooms":
        return _BY_ROOM_SEGMENT.get(rest[2], _REQUESTS) if len(rest) > 2 else _REQUESTS
    if first == b"keys":
        return _REMOTE if rest[1:] in ([b"query"], [b"claim"]) else _REQUESTS
    if rest in ([b"sync"], [b"events"]) or (first in _SLIDING and rest[1:] == [b"sync"]):
        began = _SINCE.search(target) and b"full_state=true" not in target
        return _SYNC if began else _FIRST_SYNC
    return _BY_FIRST_SEGMENT.get(first) or _REQUESTS


def sync_timeout_s(target: bytes) -> float | None:
    """Give the `timeout` a long poll asks for, in seconds; None where the query does not say it clearly."""
    match = _TIMEOUT.search(target)
    return int(match[1]) / 1000 if match else None
