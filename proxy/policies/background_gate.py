"""Background work gives way: it gets what of the homeserver does the others no harm, down to nothing (behaviour.md §6).

A background request needs a place before a worker. There are `limit` places, which the outcomes move (`load_feedback`). A
request that timed out keeps its place while the homeserver goes on with it: what is bounded is the homeserver's work, not our
waiting. At a limit of 0 nothing runs, until the cooldown is over and no place is in use; then one probe does.

Bounds: active + held < limit before each admission; a flow has at most half the limit, at least 1; in line are 2 of a flow,
`MAX_IN_LINE` in all, each at most `max_wait_seconds`. Every call is O(places), which is O(limit) but for held long polls.

Left to others: what is background (`background_match`), how a request ended (`outcomes`), the deadline of long polls,
waiting itself, and answering. A call that can free a place gives the permits granted by it: the caller runs these now.
"""

from collections.abc import Hashable
from itertools import islice
from typing import Final, Generic

from proxy.http1.deadlines import NEVER
from proxy.mechanisms.breaker import BreakerState
from proxy.mechanisms.places import Places
from proxy.mechanisms.turns import Turns
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import (
    Expired,
    GateEvent,
    GatePermit,
    GateStatistics,
    GateTotals,
    Owner,
    PermitState,
    Verdict,
)
from proxy.policies.load_feedback import LoadFeedback
from proxy.policies.outcomes import Outcome

MAX_IN_LINE: Final = 1024  # requests in all; at a limit of 4 more would wait in vain
PER_FLOW_IN_LINE: Final = 2  # one to run next, one behind it: a client that wants more is told to slow down

_ADMIT, _PARK, _REFUSE = Verdict
_NEW, _WAITING, _ACTIVE, _HELD, _OUTSIDE, _DONE = PermitState
_ADMITTING, _REFUSING, _PROBING = BreakerState
_TIMEOUT, _DROPPED = Outcome.TIMEOUT, Outcome.DROPPED


class BackgroundGate(Generic[Owner]):
    """The gate before one homeserver. `now` is in monotonic seconds and never goes back."""

    def __init__(self, settings: BackgroundSettings, now: float) -> None:
        self.totals = GateTotals()
        self._feedback = LoadFeedback(settings, self.totals, now)
        self._aimd, self._breaker = self._feedback.aimd, self._feedback.breaker
        self._places: Places[Hashable, GatePermit[Owner]] = Places()
        self._line: Turns[Hashable, GatePermit[Owner]] = Turns()
        self._polls: Turns[Hashable, GatePermit[Owner]] = Turns()
        self.configure(settings)

    def configure(self, settings: BackgroundSettings) -> None:
        """Take other settings; cooldowns and holds go on as they began, and a higher maximum has to be grown into."""
        self._hold_s = settings.hold_seconds
        self._max_wait_s = settings.max_wait_seconds
        self._fast_fraction = settings.fast_fraction
        # Few take a place for longer.
        self._turn_s = settings.timeout_seconds.default * settings.fast_fraction
        if self._feedback.configure(settings):
            self._who_waits_asked()

    # Asking.

    def ask(self, permit: GatePermit[Owner], now: float) -> Verdict:
        """Judge a request that is ready to run; PARK puts it in line."""
        permit.asked_at = now
        self._feedback.asks(permit.flow)
        if self._may_run(permit, now):
            self._admit(permit, now)
            return _ADMIT
        if not self._has_room_in_line(permit):
            permit.state = _DONE
            self.totals.refused += 1
            return _REFUSE
        permit.state = _WAITING
        (self._polls if permit.long_poll else self._line).add(permit.flow, permit)
        self.totals.parked += 1
        return _PARK

    def take(self, permit: GatePermit[Owner], now: float) -> Verdict:
        """Judge a request that runs whatever the verdict is (report mode).

        What would have waited or been refused runs outside the books: it takes no place and teaches nothing, so the verdicts
        on the others are those of a gate that had refused it.
        """
        permit.asked_at = now
        self._feedback.asks(permit.flow)
        if self._may_run(permit, now):
            self._admit(permit, now)
            return _ADMIT
        permit.state = _OUTSIDE
        self.totals.outside += 1
        return _PARK if self._has_room_in_line(permit) else _REFUSE

    def fast_within_s(self, permit: GatePermit[Owner]) -> float:
        """Give what `outcomes.of_answer` needs to tell fast from slow."""
        return permit.timeout_s * self._fast_fraction

    def retry_after_s(self, now: float) -> float:
        """Give when to ask again, in seconds, for a refusal: by when a place comes free, as far as can be told."""
        if self._breaker.state is _REFUSING:
            return max(self._turn_s, self._breaker.refuses_until - now)
        if self._places.active or not self._places.held:
            return self._turn_s
        return 4 * self._turn_s  # the homeserver is behind with what it was asked before: minutes are usual

    # From asking to the end.

    def sent(self, permit: GatePermit[Owner], now: float) -> None:
        """The request goes to the homeserver: its timeout counts from now; a resend changes nothing."""
        if permit.sent_at is None:
            permit.sent_at = now

    def finish(self, permit: GatePermit[Owner], outcome: Outcome, now: float) -> list[GatePermit[Owner]]:
        """The homeserver is done with a request, or never got it; DROPPED teaches nothing.

        A TIMEOUT is what `hold` does. For a held permit this is `released`, whatever the outcome: it gave its own before.
        """
        if permit.state is not _ACTIVE:
            return self.withdraw(permit, now) if permit.state is _WAITING else self.released(permit, now)
        if outcome is _TIMEOUT:
            return self.hold(permit, now)
        if self._is_late(permit, now):
            # The sweep that calls `expired` was later than the answer. Too late is too late, but the place is free.
            self._book_hold(permit, now)
            return self.released(permit, now)
        self._places.free(permit)
        permit.state = _DONE
        self._learn(permit, _DROPPED if permit.client_left else outcome, now)
        return self._serve(now)

    def hold(self, permit: GatePermit[Owner], now: float) -> list[GatePermit[Owner]]:
        """The request timed out, and the homeserver may be working on it: its place stays taken, and is its flow's."""
        if permit.state is _ACTIVE:
            self._book_hold(permit, now)
            return self._serve(now)
        return []

    def released(self, permit: GatePermit[Owner], now: float) -> list[GatePermit[Owner]]:
        """The homeserver is done with what was held; without effect after the end of the hold."""
        if permit.state is _OUTSIDE:
            permit.state = _DONE
        if permit.state is not _HELD:
            return []
        permit.state = _DONE
        self._places.free(permit)
        return self._serve(now)

    def left(self, permit: GatePermit[Owner], now: float) -> list[GatePermit[Owner]]:
        """The client went away. What was sent keeps its place until the homeserver ends it, and can only time out."""
        if permit.state is _ACTIVE and permit.sent_at is not None:
            permit.client_left = True
            return []
        return self.withdraw(permit, now)

    def withdraw(self, permit: GatePermit[Owner], now: float) -> list[GatePermit[Owner]]:
        """Take a request back that waits or was not sent; what is held stays held."""
        if permit.state is _ACTIVE:
            return self.finish(permit, _DROPPED, now)
        if permit.state is _WAITING:
            (self._polls if permit.long_poll else self._line).remove(permit)
            permit.state = _DONE
        return []

    def report_interactive(self, flow: Hashable, outcome: Outcome, started_at: float, now: float) -> None:
        """Hear of the failure of a request somebody waits for; `outcomes.is_reported` tells which (§6.7)."""
        if self._feedback.hear(flow, outcome, started_at, now):
            self._who_waits_asked()

    # Time.

    def next_deadline(self) -> float:
        """Give when `expired` has something to do, at the latest; NEVER if only a call can change anything."""
        at = NEVER
        for line in (self._line, self._polls):
            oldest = line.oldest()
            if oldest is not None:
                at = min(at, oldest.asked_at + self._max_wait_s)
                if self._breaker.state is _REFUSING and not self._places:
                    at = min(at, self._breaker.refuses_until)
        for permit in self._places.active_items():
            if permit.sent_at is not None and not permit.long_poll:
                at = min(at, permit.sent_at + permit.timeout_s)
        held = self._places.held_longest()
        return at if held is None else min(at, held.hold_until)

    def expired(self, now: float) -> Expired[Owner]:
        """Do what time alone brings: timeouts, ends of holds and of waits, a probe that became due."""
        for permit in [permit for permit in self._places.active_items() if self._is_late(permit, now)]:
            self._book_hold(permit, now)
        while (held := self._places.held_longest()) is not None and held.hold_until <= now:
            self._places.free(held)
            held.state = _DONE
        refused = []
        for line in (self._line, self._polls):
            while (oldest := line.oldest()) is not None and oldest.asked_at + self._max_wait_s <= now:
                line.remove(oldest)
                oldest.state = _DONE
                refused.append(oldest)
        self.totals.expired += len(refused)
        return Expired(refused, self._serve(now))

    # Views.

    def take_events(self) -> list[GateEvent]:
        """Give what happened since the last call, to be logged once."""
        return self._feedback.take_events()

    def statistics(self, now: float) -> GateStatistics:
        """Give a picture of the gate."""
        asked_at = [line.asked_at for line in (self._line.oldest(), self._polls.oldest()) if line is not None]
        breaker = self._breaker
        return GateStatistics(
            limit=self._aimd.limit,
            max_limit=self._aimd.maximum,
            active=self._places.active,
            held=self._places.held,
            waiting=len(self._line) + len(self._polls),
            oldest_wait_s=now - min(asked_at) if asked_at else 0.0,
            state=breaker.state,
            since_s=now - breaker.since_at,
            next_probe_in_s=max(0.0, breaker.refuses_until - now) if breaker.state is _REFUSING else None,
            reopened=breaker.reopened,
            totals=self.totals,
        )

    # Who may run.

    def _may_run(self, permit: GatePermit[Owner], now: float) -> bool:
        if self._breaker.state is _ADMITTING:
            return permit.long_poll or (len(self._places) < self._aimd.limit and self._has_room(permit))
        waiting = len(self._line) + len(self._polls) if permit.long_poll else len(self._line)
        return self._may_probe(now) and not waiting

    def _may_probe(self, now: float) -> bool:
        return self._breaker.period_over(now) and not self._places

    def _has_room(self, permit: GatePermit[Owner]) -> bool:
        return permit.exempt or self._places.of(permit.flow) < max(1, self._aimd.limit // 2)

    def _has_room_in_line(self, permit: GatePermit[Owner]) -> bool:
        of_flow = self._line.of(permit.flow) + self._polls.of(permit.flow)
        return (permit.exempt or of_flow < PER_FLOW_IN_LINE) and len(self._line) + len(
            self._polls
        ) < MAX_IN_LINE

    def _admit(self, permit: GatePermit[Owner], now: float) -> None:
        if self._breaker.state is not _ADMITTING:
            self._feedback.begin_probe(now)
        permit.state = _ACTIVE
        permit.era = self._aimd.era
        self._feedback.asks(permit.flow)
        self.totals.admitted += 1
        if not permit.long_poll:
            self._places.take(permit, permit.flow)

    def _serve(self, now: float) -> list[GatePermit[Owner]]:
        """Admit who can be, in turn."""
        granted: list[GatePermit[Owner]] = []
        while (permit := self._next(now)) is not None:
            self._admit(permit, now)
            granted.append(permit)
        return granted

    def _next(self, now: float) -> GatePermit[Owner] | None:
        if self._breaker.state is _ADMITTING:
            permit = self._polls.take()
            if permit is None and len(self._places) < self._aimd.limit:
                permit = self._line.take(self._has_room)
            return permit
        if not self._may_probe(now):
            return None
        return self._line.take() or self._polls.take()

    # What is learnt.

    def _is_late(self, permit: GatePermit[Owner], now: float) -> bool:
        return (
            permit.sent_at is not None and not permit.long_poll and now >= permit.sent_at + permit.timeout_s
        )

    def _book_hold(self, permit: GatePermit[Owner], now: float) -> None:
        permit.state = _HELD
        permit.hold_until = now + self._hold_s
        self._places.hold(permit, permit.flow)
        self._learn(permit, _TIMEOUT, now)

    def _learn(self, permit: GatePermit[Owner], outcome: Outcome, now: float) -> None:
        if self._feedback.learn(permit.flow, outcome, permit.era, now, may_grow=not permit.long_poll):
            self._who_waits_asked()

    def _who_waits_asked(self) -> None:
        """After a change of the limit, who still waits counts as having asked since; two are enough to know."""
        for line in (self._line, self._polls):
            for flow in islice(line.parties(), 2):
                self._feedback.asks(flow)
