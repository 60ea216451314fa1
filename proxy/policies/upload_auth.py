"""A large body is read only for a confirmed principal (behaviour.md §3.4).

Homeservers read a whole body before they look at the token, so anyone could make them take 50 MiB. Judged where the length is
known before `100 Continue` and before any byte; else, again, when the body grows past the threshold. No body is read after a
refusal: the connection closes.
"""

from enum import IntEnum
from typing import Final

from proxy.identity.principal import CONFIRMED, NO_TOKEN, REFUSED, Principal

#: The homeserver's answers to whoami that a client gets to see; any other says nothing about the request.
_RELAYED: Final = frozenset({401, 403})


class BodyVerdict(IntEnum):
    """Read the body, or close after: 401 M_MISSING_TOKEN · `principal.refusal.answer` as it is · 503."""

    READ = 0
    MISSING_TOKEN = 1
    RELAY = 2
    UNAVAILABLE = 3


_READ, _MISSING_TOKEN, _RELAY, _UNAVAILABLE = BodyVerdict


def judge_large_body(principal: Principal, *, takes_token: bool) -> BodyVerdict:
    """Tell what to do about a large body; on routes that take no token, whoever sends it."""
    standing = principal.standing
    if not takes_token or standing == CONFIRMED:
        return _READ
    if standing == NO_TOKEN:
        return _MISSING_TOKEN
    refusal = principal.refusal
    if standing == REFUSED and refusal is not None and refusal.answer and refusal.status in _RELAYED:
        return _RELAY
    return _UNAVAILABLE
