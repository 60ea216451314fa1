"""What kind of request this is, by method and raw path (behaviour.md §4.1): the kind sets the response deadline. Pure.

Homeservers match the path undecoded, so the raw path decides; a path with escapes is looked at decoded too, and the kind
that comes later in `RouteClass` wins (vital only ever by the raw path).
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
_BY_FIRST_SEGMENT: Final = {
    b"versions": _VITAL,
    b"auth_metadata": _VITAL,
    b"sync": _SYNC,
    b"events": _SYNC,
    b"initialSync": _FIRST_SYNC,
    b"search": _HISTORY,
    b"media": _MEDIA,
    b"join": _REMOTE,
    b"knock": _REMOTE,
    b"directory": _REMOTE,
    b"profile": _REMOTE,
    b"publicRooms": _REMOTE,
    b"room_summary": _REMOTE,
}
_BY_ROOM_SEGMENT: Final = {
    b"messages": _HISTORY,
    b"context": _HISTORY,
    b"relations": _HISTORY,
    b"initialSync": _FIRST_SYNC,
    b"join": _REMOTE,
    b"hierarchy": _REMOTE,
}
_SLIDING: Final = frozenset({b"org.matrix.simplified_msc3575", b"org.matrix.msc3575"})
_TIMEOUT: Final = re.compile(rb"[?&]timeout=([0-9]{1,9})(?:&|$)")
_SINCE: Final = re.compile(rb"[?&](?:since|pos|from)=[^&]")


def classify(method: bytes, target: bytes) -> RouteClass:
    """Give the kind of a request. `target` is in origin-form, as it came."""
    path, _, _ = target.partition(b"?")
    route = _by_path(method, path, target)
    if b"%" in path:
        decoded = _by_path(method, unquote_to_bytes(path), target)
        return max(route, decoded)
    return route


def _by_path(method: bytes, path: bytes, target: bytes) -> RouteClass:
    if path.startswith(b"/_matrix/client/"):
        return _client(method, path.split(b"/"), target)
    if path.startswith((b"/_matrix/federation/", b"/_matrix/key/")):
        return _FEDERATION
    if path.startswith(b"/_matrix/media/"):
        return _MEDIA
    if method == b"OPTIONS" or path == b"/health" or path.startswith(b"/.well-known/"):
        return _VITAL
    return _REQUESTS


def _client(method: bytes, parts: list[bytes], target: bytes) -> RouteClass:
    """`parts` is ["", "_matrix", "client", version, first, …], or [… "client", "versions"]."""
    if method == b"OPTIONS":
        return _VITAL
    if parts[3] not in _PREFIXES:
        return _VITAL if parts[3:] == [b"versions"] else _REQUESTS
    rest = parts[5:] if parts[3] == b"api" else parts[4:]
    first = rest[0] if rest else b""
    if first == b"rooms" and len(rest) > 2:
        route = _BY_ROOM_SEGMENT.get(rest[2], _REQUESTS)
    elif first in _SLIDING and rest[1:] == [b"sync"]:
        route = _SYNC
    elif first == b"keys" and rest[1:] in ([b"query"], [b"claim"]):
        route = _REMOTE
    else:
        route = _BY_FIRST_SEGMENT.get(first, _REQUESTS)
    if route == _SYNC:
        if len(rest) > 1 and first not in _SLIDING:  # /events/{eventId} is an ordinary read
            return _REQUESTS
        if not _SINCE.search(target) or b"full_state=true" in target:
            return _FIRST_SYNC
    return route


def sync_timeout_s(target: bytes) -> float | None:
    """Give the `timeout` a long poll asks for, in seconds; None where the query does not say it clearly."""
    match = _TIMEOUT.search(target)
    return int(match[1]) / 1000 if match else None
