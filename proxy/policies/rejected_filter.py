"""`rejected` in a gateway's answer may name only pushkeys that the notification named (behaviour.md §7.5). Pure.

A homeserver removes pushers by it. An answer in which nothing is wrong goes on byte for byte, and so does every body that is
not what the Push Gateway API says: it is not ours to repair.
"""

import json
from typing import Any

MAX_BODY_BYTES = 65_536


def named_pushkeys(notification: bytes) -> frozenset[str] | None:
    """Give the pushkeys that a notification names; None where it is no notification."""
    body = _object(notification)
    inner = body.get("notification") if body is not None else None
    devices = inner.get("devices") if isinstance(inner, dict) else None
    if not isinstance(devices, list):
        return None
    keys = (device.get("pushkey") for device in devices if isinstance(device, dict))
    return frozenset(key for key in keys if isinstance(key, str))


def without_foreign(answer: bytes, named: frozenset[str]) -> bytes | None:
    """Give the answer's body without pushkeys that were not named; None where it may stay as it is."""
    body = _object(answer)
    rejected = body.get("rejected") if body is not None else None
    if body is None or not isinstance(rejected, list):
        return None
    kept = [key for key in rejected if isinstance(key, str) and key in named]
    if len(kept) == len(rejected) and not _is_doubled(answer):
        return None
    return json.dumps({**body, "rejected": kept}, separators=(",", ":")).encode()


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_doubled(data: bytes) -> bool:
    """Tell whether a key of any object stands twice: readers differ in which one they take."""
    doubled = False

    def see(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubled
        found = dict(pairs)
        doubled = doubled or len(found) < len(pairs)
        return found

    json.loads(data, object_pairs_hook=see)
    return doubled
