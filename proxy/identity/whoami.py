"""What the homeserver's answer to whoami says about a token (behaviour.md §2.3, §2.5). Pure; no answer raises.

200 names an account; 401, 403 and any other 4xx but 429 say that the token is not accepted; everything else (5xx, 429,
redirects, silence, a body that is no whoami) says nothing, and what was known stays.
"""

import json
from typing import Final, NamedTuple, TypeGuard

#: A body over this is none of whoami's.
MAX_BODY_BYTES: Final = 8192
_MAX_ID_BYTES: Final = 255  # of account and device, in UTF-8: the specification's bound for accounts


class Named(NamedTuple):
    """The account, device and guest flag the homeserver names."""

    account: str
    device: str | None
    guest: bool


class Denied(NamedTuple):
    """The homeserver does not accept the token, or not the masquerade. `answer` is as it came, for §3.4."""

    status: int
    answer: bytes


#: What came of a look-up; None for nothing learned.
Outcome = Named | Denied | None


def outcome(status: int, body: bytes, answer: bytes = b"") -> Outcome:
    """Give what an answer says; `status` is 0 where there was none, `body` is decoded, `answer` the whole as it came."""
    if status == 200:
        return _named(body)
    if 400 <= status < 500 and status != 429:
        return Denied(status, answer)
    return None


def _named(body: bytes) -> Named | None:
    if len(body) > MAX_BODY_BYTES:
        return None
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    account, device, guest = told.get("user_id"), told.get("device_id"), told.get("is_guest", False)
    if not _is_id(account) or not account.startswith("@") or not isinstance(guest, bool):
        return None
    if device is not None and not _is_id(device):
        return None
    return Named(account, device, guest)


def _is_id(value: object) -> TypeGuard[str]:
    """Text of a sensible length that can be written anywhere."""
    if not isinstance(value, str) or not value or not value.isprintable():
        return False
    try:
        return len(value.encode()) <= _MAX_ID_BYTES
    except UnicodeEncodeError:
        return False
