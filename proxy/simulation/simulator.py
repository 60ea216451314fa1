"""The deciding half under virtual time: requests in, who waited and who was refused out.

A `Simulation` moves time from event to event and plays the homeserver: a request that runs ends after its service. Requests
come from `send`, from clients that react to their answers (`clients.py`), or from a stream in the order of time (a recorded
trace). What is kept is what is in flight and one `Outcome` per group, at most `max_groups`: memory is bounded however long
the stream. Pure.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from proxy.policies.worker_share import GRANTED, REFUSED, RUNNING, WAITING, Ticket
from proxy.simulation.waits import Waits

OTHERS: Final = "others"  # the group of all that came after `max_groups` were known


class Scheduler(Protocol):
    """Who decides: `WorkerShare`, or something to compare it with. Methods as there."""

    displaced: Ticket | None

    def ask(self, ticket: Ticket, now: float) -> int:
        """Ask for a worker."""
        ...

    def release(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Give it back."""
        ...

    def hold(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Keep it for a client that left."""
        ...

    def withdraw(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Leave the line."""
        ...

    def expired(self, now: float) -> list[Ticket]:
        """Give who waited too long."""
        ...

    def dispatch(self, now: float) -> Sequence[Ticket]:
        """Serve the line after that."""
        ...

    def next_deadline(self) -> float:
        """Give when the next will have waited too long."""
        ...

    def retry_after_s(self, ticket: Ticket, now: float) -> float:
        """Give a hint for one that was refused."""
        ...


class Request(NamedTuple):
    """One request as it arrives. `leaves_after_s`: its client leaves that long after it asked, None if it never does."""

    at: float
    group: str
    flow: Hashable
    address: Hashable
    service_s: float
    lane: int = 0
    confirmed: bool = True
    exempt: bool = False
    address_capped: bool = True
    history: bool = False
    leaves_after_s: float | None = None


@dataclass(slots=True)
class Outcome:
    """What happened to the requests of one group. `waits`: for a worker, of those that got one."""

    asked: int = 0
    served: int = 0
    refused: int = 0
    expired: int = 0
    left: int = 0
    worker_seconds: float = 0.0
    waits: Waits = field(default_factory=Waits)


Answered = Callable[[bool, float, float], None]  # served?, when, and seconds until another try makes sense


@dataclass(slots=True, eq=False)
class _Sent:
    request: Request
    outcome: Outcome
    answered: Answered | None
    gone: bool = False


class Simulation:
    """One run. `now` moves in `run` only."""

    def __init__(self, scheduler: Scheduler, *, now: float = 0.0, max_groups: int = 1000) -> None:
        self.now = now
        self.outcomes: dict[str, Outcome] = {}
        self.running = 0
        self.most_running = 0
        self._scheduler = scheduler
        self._max_groups = max_groups
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._numbers = count()

    def at(self, moment: float, act: Callable[[Any], None], what: Any) -> None:
        """Have `act(what)` called at `moment`."""
        heappush(self._events, (moment, next(self._numbers), act, what))

    def send(self, request: Request, answered: Answered | None = None) -> Ticket:
        """Let a request arrive now."""
        outcome = self._outcome(request.group)
        outcome.asked += 1
        sent = _Sent(request, outcome, answered)
        ticket = Ticket(
            request.lane,
            request.flow,
            request.address,
            sent,
            confirmed=request.confirmed,
            exempt=request.exempt,
            address_capped=request.address_capped,
            history=request.history,
        )
        verdict = self._scheduler.ask(ticket, self.now)
        if verdict == GRANTED:
            self._started(ticket)
        elif verdict == REFUSED:
            self._refused(ticket)
        elif self._scheduler.displaced is not None:
            self._refused(self._scheduler.displaced)
        if request.leaves_after_s is not None and verdict != REFUSED:
            self.at(self.now + request.leaves_after_s, self._client_leaves, ticket)
        return ticket

    def run(self, until: float, stream: Iterable[Request] = ()) -> None:
        """Move time to `until`, and let the requests of `stream`, ordered by `at`, arrive on the way."""
        arrivals = iter(stream)
        arriving = next(arrivals, None)
        while True:
            at = self._events[0][0] if self._events else until
            deadline = self._scheduler.next_deadline()
            moment = min(at, deadline, until if arriving is None else arriving.at)
            if moment >= until:
                break
            self.now = max(self.now, moment)
            if deadline <= moment:
                self._expire()
            elif arriving is not None and arriving.at <= moment:
                self.send(arriving)
                arriving = next(arrivals, None)
            else:
                _, _, act, what = heappop(self._events)
                act(what)
        self.now = until

    def _outcome(self, group: str) -> Outcome:
        if group not in self.outcomes and len(self.outcomes) >= self._max_groups:
            group = OTHERS
        return self.outcomes.setdefault(group, Outcome())

    def _started(self, ticket: Ticket) -> None:
        sent = _sent(ticket)
        sent.outcome.waits.add(self.now - ticket.asked_at)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.at(self.now + sent.request.service_s, self._ends, ticket)

    def _ends(self, ticket: Ticket) -> None:
        sent = _sent(ticket)
        self.running -= 1
        sent.outcome.worker_seconds += self.now - ticket.started_at
        granted = self._scheduler.release(ticket, self.now)
        if not sent.gone:
            sent.outcome.served += 1
        self._all_started(granted)
        if not sent.gone:
            _answer(sent, self.now, served=True)

    def _client_leaves(self, ticket: Ticket) -> None:
        sent = _sent(ticket)
        if ticket.state == WAITING:
            granted = self._scheduler.withdraw(ticket, self.now)
        elif ticket.state == RUNNING:
            granted = self._scheduler.hold(ticket, self.now)
        else:
            return
        sent.gone = True
        sent.outcome.left += 1
        self._all_started(granted)
        _answer(sent, self.now, served=False)

    def _refused(self, ticket: Ticket) -> None:
        sent = _sent(ticket)
        sent.outcome.refused += 1
        _answer(sent, self.now, served=False, again_after_s=self._scheduler.retry_after_s(ticket, self.now))

    def _expire(self) -> None:
        for ticket in self._scheduler.expired(self.now):
            sent = _sent(ticket)
            sent.outcome.expired += 1
            _answer(
                sent, self.now, served=False, again_after_s=self._scheduler.retry_after_s(ticket, self.now)
            )
        self._all_started(self._scheduler.dispatch(self.now))

    def _all_started(self, granted: Sequence[Ticket]) -> None:
        for ticket in granted:
            self._started(ticket)


def _sent(ticket: Ticket) -> _Sent:
    sent = ticket.owner
    if not isinstance(sent, _Sent):
        raise TypeError("a ticket of another simulation")
    return sent


def _answer(sent: _Sent, now: float, *, served: bool, again_after_s: float = 0.0) -> None:
    if sent.answered is not None:
        sent.answered(served, now, again_after_s)
