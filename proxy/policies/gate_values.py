"""What goes in and out of the background gate: permits, verdicts, events and statistics. Values only; the gate decides."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from proxy.mechanisms.breaker import BreakerState
from proxy.policies.outcomes import Outcome

Owner = TypeVar("Owner")


class Verdict(IntEnum):
    """What is to be done with a request that asks: run it, let it wait until it is granted or expired, or answer 429."""

    ADMIT = 0
    PARK = 1
    REFUSE = 2


class PermitState(IntEnum):
    """What a permit can do next: the comments name the calls that move it on."""

    NEW = 0  # ask, take
    WAITING = 1  # granted or expired by the gate; withdraw, left
    ACTIVE = 2  # sent, finish, hold, left
    HELD = 3  # released, or let go by the gate at the end of the hold
    OUTSIDE = 4  # runs although it would have waited (report mode): not in the books
    DONE = 5  # nothing: all calls are without effect


_NEW = PermitState.NEW


class GatePermit(Generic[Owner]):
    """One background request's right to a place. The gate writes all fields after `exempt`; instants are monotonic seconds.

    `flow` is who is charged, `owner` whatever the caller needs to find its request again, `timeout_s` from when on it counts
    as a failure, from sending (`background_match.timeout_s`; a long poll's is judged by the caller). `exempt` lifts what holds
    by flow, never the limit (§2.6). `era` tells outcomes of now from those of before the last cut.
    """

    __slots__ = (
        "asked_at",
        "client_left",
        "era",
        "exempt",
        "flow",
        "hold_until",
        "long_poll",
        "owner",
        "sent_at",
        "state",
        "timeout_s",
    )

    def __init__(
        self, flow: Hashable, owner: Owner, timeout_s: float, *, long_poll: bool = False, exempt: bool = False
    ) -> None:
        self.flow = flow
        self.owner = owner
        self.timeout_s = timeout_s
        self.long_poll = long_poll
        self.exempt = exempt
        self.state = _NEW
        self.asked_at = 0.0
        self.sent_at: float | None = None
        self.hold_until = 0.0
        self.era = 0
        self.client_left = False


class Expired(NamedTuple, Generic[Owner]):
    """What time alone brought about: who waited too long (answer 429), and who runs now."""

    refused: list[GatePermit[Owner]]
    granted: list[GatePermit[Owner]]


class StartedRefusing(NamedTuple):
    """The breaker began to refuse: one WARN, with the outcome that did it."""

    outcome: Outcome


class AdmitsAgain(NamedTuple):
    """The breaker ended an outage that lasted `refused_for_s`: one INFO."""

    refused_for_s: float


GateEvent = StartedRefusing | AdmitsAgain


@dataclass(slots=True)
class GateTotals:
    """What happened since the start: plain counters."""

    admitted: int = 0
    parked: int = 0
    refused: int = 0  # no room in line
    expired: int = 0  # waited too long
    outside: int = 0  # ran all the same, in report mode
    cuts: int = 0
    growths: int = 0
    outages: int = 0  # how often it started refusing
    probes: int = 0
    reports_heard: int = 0
    reports_unheard: int = 0
    outcomes: list[int] = field(default_factory=lambda: [0] * len(Outcome))  # by Outcome


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """The gate as §6.8 wants it shown.

    `next_probe_in_s` is None unless it refuses, and counts the cooldown only: a probe also waits until no place is in use,
    and for somebody who asks. `totals` is the gate's own object, to be read at once.
    """

    limit: int
    max_limit: int
    active: int
    held: int
    waiting: int
    oldest_wait_s: float
    state: BreakerState
    since_s: float
    next_probe_in_s: float | None
    reopened: int
    totals: GateTotals
