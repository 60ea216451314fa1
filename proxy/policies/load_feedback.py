"""What the outcomes of requests teach about the homeserver's load: how much background work it gets (behaviour.md §6).

| outcome                                | ADMITTING                           | PROBING, of the probe                  |
|----------------------------------------|-------------------------------------|----------------------------------------|
| fast                                   | counts towards +1; long polls do not | ADMITTING at a limit of 1              |
| slow, rejected                         | nothing                             | ADMITTING at a limit of 1              |
| timeout, 5xx, 429, transport error     | halved; at 0 REFUSING               | REFUSING, longer                       |
| the same, of an interactive request    | halved, not below 1                 | not heard                              |
| dropped                                | nothing                             | REFUSING, its period over              |

An outcome of an earlier era changes nothing: an era ends with every cut and every change of state. Where two flows asked since
the limit last changed, only failures of two bring it to 0; a 429 to an interactive request counts when two flows got one.
Places and lines are `background_gate`'s. Every call is O(1).
"""

from collections.abc import Hashable
from typing import Final

from proxy.mechanisms.aimd_limit import AimdLimit
from proxy.mechanisms.breaker import Breaker, BreakerEvent, BreakerState
from proxy.mechanisms.quorum import Quorum
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import AdmitsAgain, GateEvent, GateTotals, StartedRefusing
from proxy.policies.outcomes import FAILURES, RECOVERIES, Outcome

_ADMITTING, _, _PROBING = BreakerState
_FAILED, _PROBE_BEGAN, _PROBE_SUCCEEDED, _PROBE_FAILED, _PROBE_DROPPED = BreakerEvent
_FAST, _RATE_LIMITED = Outcome.FAST, Outcome.RATE_LIMITED
_MAX_EVENTS: Final = 64  # kept for the caller, who takes them after each call


class LoadFeedback:
    """Limit and breaker, moved by outcomes; `totals` counts what they did."""

    __slots__ = (
        "_asked",
        "_events",
        "_failed",
        "_outage_began_at",
        "_rate_limited",
        "aimd",
        "breaker",
        "totals",
    )

    def __init__(self, settings: BackgroundSettings, totals: GateTotals, now: float) -> None:
        self.aimd = AimdLimit(settings.initial_limit, settings.max_limit, settings.grow_after, now)
        self.breaker = Breaker(settings.cooldown_seconds, settings.cooldown_max_seconds, now)
        self.totals = totals
        # Since the limit last changed: who asked, whose requests failed, which interactive flows were told 429.
        self._asked, self._failed, self._rate_limited = Quorum(), Quorum(), Quorum()
        self._outage_began_at = now
        self._events: list[GateEvent] = []

    def configure(self, settings: BackgroundSettings) -> bool:
        """Take other settings; tell whether the limit had to come down."""
        self.aimd.grow_after = settings.grow_after
        self.breaker.cooldown_s = settings.cooldown_seconds
        self.breaker.cooldown_max_s = settings.cooldown_max_seconds
        changed = self.aimd.bound(settings.max_limit)
        if changed:
            self._forget()
        return changed

    def asks(self, flow: Hashable) -> None:
        """Note that a flow has a request for the gate."""
        self._asked.note(flow)

    def begin_probe(self, now: float) -> None:
        """One request goes out to see whether the homeserver copes again; only what it teaches counts."""
        self.breaker.move(_PROBE_BEGAN, now)
        self.aimd.begin_era(0, now)
        self.totals.probes += 1

    def learn(self, flow: Hashable, outcome: Outcome, era: int, now: float, *, may_grow: bool) -> bool:
        """Take the outcome of a background request admitted in `era`; tell whether the limit changed."""
        self.totals.outcomes[outcome] += 1
        if era != self.aimd.era:
            return False
        if self.breaker.state is _PROBING:
            return self._probe_ended(outcome, now)
        if outcome in FAILURES:
            return self._request_failed(flow, outcome, now)
        if outcome is not _FAST or not may_grow or not self.aimd.succeeded_fast(era):
            return False
        self.totals.growths += 1
        self._forget()
        return True

    def hear(self, flow: Hashable, outcome: Outcome, started_at: float, now: float) -> bool:
        """Take the failure of an interactive request; tell whether the limit changed."""
        era = self.aimd.era_of(started_at)
        heard = self.breaker.state is _ADMITTING and era == self.aimd.era
        if heard and outcome is _RATE_LIMITED:
            heard = self._rate_limited.note(flow)  # one user's own limit is not load
        if not heard:
            self.totals.reports_unheard += 1
            return False
        self.totals.reports_heard += 1
        return self._cut(now, floor=1)

    def take_events(self) -> list[GateEvent]:
        """Give what happened since the last call."""
        events, self._events = self._events, []
        return events

    def _request_failed(self, flow: Hashable, outcome: Outcome, now: float) -> bool:
        agreed = self._failed.note(flow)
        if self.aimd.limit == 1 and self._asked.reached and not agreed:
            return False  # one flow alone does not shut the gate for the others
        changed = self._cut(now)
        if changed and not self.aimd.limit:
            self.breaker.move(_FAILED, now)
            self.totals.outages += 1
            self._outage_began_at = now
            self._note(StartedRefusing(outcome))
        return changed

    def _cut(self, now: float, floor: int = 0) -> bool:
        if not self.aimd.failed(self.aimd.era, now, floor):
            return False
        self.totals.cuts += 1
        self._forget()
        return True

    def _probe_ended(self, outcome: Outcome, now: float) -> bool:
        if outcome in RECOVERIES:
            self.breaker.move(_PROBE_SUCCEEDED, now)
            self.aimd.begin_era(1, now)
            self._forget()
            self._note(AdmitsAgain(now - self._outage_began_at))
            return True
        failed = outcome in FAILURES
        self.breaker.move(_PROBE_FAILED if failed else _PROBE_DROPPED, now)
        self.aimd.begin_era(0, now)
        return False

    def _forget(self) -> None:
        for quorum in (self._asked, self._failed, self._rate_limited):
            quorum.reset()

    def _note(self, event: GateEvent) -> None:
        if len(self._events) < _MAX_EVENTS:
            self._events.append(event)
