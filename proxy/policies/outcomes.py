"""How a request ended, as a sign of the homeserver's load: the one place where it is told (behaviour.md §6.3, §6.7).

What was answered, in whichever way, says that the homeserver copes; a timeout, 5xx, 429 and a broken connection say that it
does not; what we did not send, or nobody waited for, says nothing. The gate learns from these, and so do the reports of
interactive requests, so the two cannot disagree. A resend on a stale connection is no outcome: only the last attempt is judged.
"""

from enum import IntEnum
from typing import Final

from proxy.errors import Reason
from proxy.matrix.endpoint import RouteClass


class Outcome(IntEnum):
    """The label for people is `name.lower()`."""

    FAST = 0  # answered with 1xx to 3xx within the class's fast time
    SLOW = 1  # the same, later
    REJECTED = 2  # any other answer: 4xx, or one we could not read: the request's trouble, not load's
    TIMEOUT = 3  # no whole answer in time: the homeserver may still be working on it
    SERVER_ERROR = 4  # 5xx but 504
    RATE_LIMITED = 5  # 429
    TRANSPORT_ERROR = 6  # refused, reset, or cut off before its end
    DROPPED = 7  # never sent, given up by us, or its client left: nothing learnt


_FAST, _SLOW, _REJECTED, _TIMEOUT, _SERVER_ERROR, _RATE_LIMITED, _TRANSPORT_ERROR, _DROPPED = Outcome
#: What halves the limit.
FAILURES: Final = frozenset({_TIMEOUT, _SERVER_ERROR, _RATE_LIMITED, _TRANSPORT_ERROR})
#: What lets a probe's breaker admit again.
RECOVERIES: Final = frozenset({_FAST, _SLOW, _REJECTED})

#: Where the exchange failed with a reason of ours. What is not named was decided before anything was sent.
_BY_REASON: Final = {
    Reason.UPSTREAM_UNREACHABLE: _TRANSPORT_ERROR,
    Reason.CONNECT_TIMEOUT: _TRANSPORT_ERROR,  # nothing was sent, so there is nothing it may be working on
    Reason.UPSTREAM_CLOSED: _TRANSPORT_ERROR,
    Reason.UPSTREAM_TIMEOUT: _TIMEOUT,
    Reason.UPSTREAM_BROKEN: _REJECTED,
}
_SILENT_ROUTES: Final = frozenset({RouteClass.MEDIA, RouteClass.REMOTE, RouteClass.FEDERATION})


def of_answer(status: int, elapsed_s: float, fast_within_s: float) -> Outcome:
    """Judge an answer that came whole, `elapsed_s` after the request was sent."""
    if status < 400:
        return _FAST if elapsed_s < fast_within_s else _SLOW
    if status == 429:
        return _RATE_LIMITED
    if status < 500:
        return _REJECTED
    return _TIMEOUT if status == 504 else _SERVER_ERROR  # a 504 is a deadline of who is between: §4.6


def of_reason(reason: Reason) -> Outcome:
    """Judge a request that ended with a reason of ours, before or within the answer."""
    return _BY_REASON.get(reason, _DROPPED)


def is_reported(outcome: Outcome, route: RouteClass, *, upload: bool) -> bool:
    """Tell whether an interactive request's outcome goes to the gate (§6.7).

    Media and remote requests wait for other servers, and federation is theirs: they say nothing about load. An upload's
    timeout depends on its size and the client's network as much, its other failures do not. A request whose client left has
    the outcome DROPPED.
    """
    if outcome not in FAILURES:
        return False
    if upload:
        return outcome is not _TIMEOUT
    return route not in _SILENT_ROUTES
