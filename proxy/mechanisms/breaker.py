"""Refuse all, then try with one: a breaker as a table of states and events.

    ADMITTING --FAILED--> REFUSING --PROBE_BEGAN--> PROBING --PROBE_SUCCEEDED--> ADMITTING
                          REFUSING <--PROBE_FAILED---- PROBING       refuses anew, longer
                          REFUSING <--PROBE_DROPPED--- PROBING       its period is over: the next may probe at once

It refuses for `cooldown_s x 2^n`, at most `cooldown_max_s`; n counts how often a probe failed since it last admitted, and
admitting sets it to 0: one outage does not make the next one longer. The states' names say what is let through; "open"
and "closed" are read both ways. Who may probe, and what else a probe waits for, is the caller's.
"""

from enum import IntEnum
from typing import Final


class BreakerState(IntEnum):
    """What is let through: all, nothing, or one; the label for people is `name.lower()`."""

    ADMITTING = 0
    REFUSING = 1
    PROBING = 2


class BreakerEvent(IntEnum):
    """What moves it."""

    FAILED = 0
    PROBE_BEGAN = 1
    PROBE_SUCCEEDED = 2
    PROBE_FAILED = 3
    PROBE_DROPPED = 4


_ADMITTING, _REFUSING, _PROBING = BreakerState
_FAILED, _PROBE_BEGAN, _PROBE_SUCCEEDED, _PROBE_FAILED, _PROBE_DROPPED = BreakerEvent
TRANSITIONS: Final[dict[tuple[BreakerState, BreakerEvent], BreakerState]] = {
    (_ADMITTING, _FAILED): _REFUSING,
    (_REFUSING, _PROBE_BEGAN): _PROBING,
    (_PROBING, _PROBE_SUCCEEDED): _ADMITTING,
    (_PROBING, _PROBE_FAILED): _REFUSING,
    (_PROBING, _PROBE_DROPPED): _REFUSING,
}
_MOST_DOUBLINGS: Final = 32  # beyond any cooldown a person would set; keeps the power small


class Breaker:
    """The state, since when (`since_at`), until when it refuses (`refuses_until`; monotonic seconds), and n (`reopened`)."""

    __slots__ = ("cooldown_max_s", "cooldown_s", "refuses_until", "reopened", "since_at", "state")

    def __init__(self, cooldown_s: float, cooldown_max_s: float, now: float) -> None:
        self.cooldown_s = cooldown_s
        self.cooldown_max_s = cooldown_max_s
        self.state = _ADMITTING
        self.since_at = now
        self.refuses_until = now
        self.reopened = 0

    def move(self, event: BreakerEvent, now: float) -> BreakerState:
        """Take an event; give the state it led to.

        Raises:
            KeyError: if the event cannot happen in the present state: a fault of the caller.
        """
        self.state = TRANSITIONS[self.state, event]
        self.since_at = now
        if event is _PROBE_SUCCEEDED:
            self.reopened = 0
        elif event is _PROBE_FAILED:
            self.reopened += 1
        if event is _FAILED or event is _PROBE_FAILED:
            self.refuses_until = now + self.period_s()
        return self.state

    def period_s(self) -> float:
        """Give how long it refuses at the present n."""
        return min(self.cooldown_max_s, self.cooldown_s * (1 << min(self.reopened, _MOST_DOUBLINGS)))

    def period_over(self, now: float) -> bool:
        """Tell whether it refuses, and as far as time is concerned a probe may begin."""
        return self.state is _REFUSING and now >= self.refuses_until
