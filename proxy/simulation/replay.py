"""Recorded requests run through the rules of another configuration: who would have waited or been refused.

The homeserver is as fast as it was: a request takes as long as it took, one without a duration as long as others of its class
did so far. Clients do not react: what is refused does not come again, and what waited longer comes no later next time. Rules
run: the worker share with its lanes and lines, and the budgets of long polls. Not run: the background gate, bodies, pushers.

Memory: what is in flight, `WINDOW_S` seconds of lines that are put in order, and one outcome for each of at most `MAX_FLOWS`
flows (the rest is `others`). Pure.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Any, Final

from proxy.matrix.endpoint import Lane
from proxy.matrix.profiles import Figures
from proxy.policies.lanes import pool_rules
from proxy.policies.sync_wait import SyncWait
from proxy.policies.wait_values import WaitPermit, WaitVerdict
from proxy.policies.worker_share import WorkerShare
from proxy.simulation.recorded import Recorded
from proxy.simulation.simulator import Request, Simulation
from proxy.simulation.waits import Waits

WINDOW_S: Final = 120.0
MAX_IN_WINDOW: Final = 500_000
MAX_FLOWS: Final = 20_000
_FIRST_GUESS_S: Final = 0.1
_VITAL, _FEDERATION, _APPSERVICES = Lane.VITAL, Lane.FEDERATION, Lane.APPSERVICES
_ADMIT, _PARK = WaitVerdict.ADMIT, WaitVerdict.PARK


@dataclass(frozen=True, slots=True)
class Rules:
    """The figures of the configuration to try. `exempt` tells by account, device and whether it is an appservice."""

    figures: Figures
    history_per_account: int = 4
    address_share: float = 0.875
    max_lead_s: float = 10.0
    grace_s: float = 2.0
    max_timeout_s: float = 120.0
    exempt: Callable[[str, str | None, bool], bool] = lambda _account, _device, _appservice: False


@dataclass(slots=True)
class Fate:
    """What would become of one flow's requests, and what became of them. `refused` by reason."""

    asked: int = 0
    waited: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    worker_seconds: float = 0.0
    longest_wait_s: float = 0.0
    was_refused: int = 0

    @property
    def refused_in_all(self) -> int:
        """Refusals for whatever reason."""
        return sum(self.refused.values())


@dataclass(slots=True)
class Result:
    """Everything a replay found out. `waits` are of those that got a worker; `by_class` counts requests by route class."""

    flows: dict[str, Fate] = field(default_factory=dict)
    total: Fate = field(default_factory=Fate)
    waits: Waits = field(default_factory=Waits)
    by_class: dict[str, int] = field(default_factory=dict)
    first_at: float = 0.0
    last_at: float = 0.0
    most_running: int = 0
    most_polls: int = 0
    without_duration: int = 0


def in_order(lines: Iterable[Recorded], window_s: float = WINDOW_S) -> Iterator[Recorded]:
    """Put requests that are told when they ended into the order in which they came; those that took longer come late."""
    heap: list[tuple[float, int, Recorded]] = []
    latest = given = -inf
    for number, one in enumerate(lines):
        heappush(heap, (one.at, number, one))
        latest = max(latest, one.at + (one.service_s or 0.0))
        while heap and (heap[0][0] <= latest - window_s or len(heap) > MAX_IN_WINDOW):
            at, _, first = heappop(heap)
            given = max(given, at)
            yield first if at == given else first._replace(at=given)
    while heap:
        at, _, first = heappop(heap)
        given = max(given, at)
        yield first if at == given else first._replace(at=given)


def replay(requests: Iterable[Recorded], rules: Rules) -> Result:
    """Run them; `requests` in the order of `at`."""
    run: _Replay | None = None
    for one in requests:
        if run is None:
            run = _Replay(rules, one.at)
        run.ask(one)
    return Result() if run is None else run.finish()


class _Replay:
    """One run."""

    def __init__(self, rules: Rules, now: float) -> None:
        self.result = Result(first_at=now, last_at=now)
        self._rules = rules
        figures = rules.figures
        share = WorkerShare(
            pool_rules(figures, history_per_account=rules.history_per_account),
            now=now,
            address_share=rules.address_share,
            max_lead_s=rules.max_lead_s,
        )
        self._simulation = Simulation(share, now=now, max_groups=MAX_FLOWS)
        self._polls: SyncWait[_Poll] = SyncWait(
            workers=figures.sync_workers,
            per_account=figures.waits_per_account,
            per_device=figures.waits_per_device,
            grace_s=rules.grace_s,
        )
        self._polls_now = 0
        self._expires_at = inf
        self._exempt: dict[tuple[str, str | None], bool] = {}
        self._means: dict[str, list[float]] = {}  # by class: how many durations, and their sum

    def ask(self, one: Recorded) -> None:
        """Let a request arrive."""
        self._simulation.run(one.at)
        result = self.result
        result.last_at = one.at
        result.by_class[one.label] = result.by_class.get(one.label, 0) + 1
        flow = _flow_of(one)
        fate = self._fate(flow)
        fate.asked += 1
        result.total.asked += 1
        if one.was_refused is not None:
            fate.was_refused += 1
            result.total.was_refused += 1
        service_s = self._service_s(one)
        exempt = one.account is not None and self._is_exempt(
            one.account, one.device, appservice=one.appservice
        )
        if one.poll_s is None:
            self._work(one, flow, service_s, exempt=exempt)
            return
        permit = WaitPermit(
            flow,
            one.device,
            None if exempt or one.appservice else one.address,
            min(one.poll_s, self._rules.max_timeout_s),
            _Poll(one, flow, service_s, exempt),
            exempt=exempt,
        )
        verdict = self._polls.ask(permit, one.at)
        if verdict is _ADMIT:
            self._wait(permit)
        elif verdict is _PARK:
            self._expire_later()
        else:
            self._refuse(flow, verdict.name.lower())

    def finish(self) -> Result:
        """Let all that is still there end."""
        self._simulation.run(self.result.last_at + 1e6)
        result = self.result
        for flow, outcome in self._simulation.outcomes.items():
            fate = self._fate(flow)
            waited = outcome.waits.count - outcome.waits.quick
            for book in (fate, result.total):
                book.waited += waited
                book.worker_seconds += outcome.worker_seconds
                book.longest_wait_s = max(book.longest_wait_s, outcome.waits.longest_s)
                for reason, times in (("line_full", outcome.refused), ("line_timeout", outcome.expired)):
                    if times:
                        book.refused[reason] = book.refused.get(reason, 0) + times
            result.waits.merge(outcome.waits)
        result.most_running = self._simulation.most_running
        return result

    def _work(self, one: Recorded, flow: str, service_s: float, *, exempt: bool) -> None:
        lane = _APPSERVICES if one.appservice and one.lane not in (_VITAL, _FEDERATION) else one.lane
        by_address = lane in (_VITAL, _FEDERATION)
        self._simulation.send(
            Request(
                one.at,
                flow,
                one.address if by_address else flow,
                one.address,
                service_s,
                lane,
                one.account is not None and not by_address,
                exempt,
                not (exempt or one.appservice),
                one.history,
            )
        )

    def _wait(self, permit: "WaitPermit[_Poll]") -> None:
        poll = permit.owner
        self._polls_now += 1
        self.result.most_polls = max(self.result.most_polls, self._polls_now)
        if poll.one.lane != Lane.NONE:  # it takes a worker too
            self._work(poll.one, poll.flow, poll.service_s, exempt=poll.exempt)
        self._simulation.at(self._simulation.now + poll.service_s, self._ended, permit)

    def _ended(self, permit: "WaitPermit[_Poll]") -> None:
        self._polls_now -= 1
        for admitted in self._polls.end(permit, self._simulation.now):
            self._wait(admitted)

    def _expire(self, _: Any) -> None:
        now = self._simulation.now
        if self._polls.next_deadline() <= now:
            expired = self._polls.expired(now)
            for permit in expired.refused:
                self._refuse(permit.owner.flow, permit.verdict.name.lower())
            for permit in expired.admitted:
                self._wait(permit)
        self._expire_later()

    def _expire_later(self) -> None:
        deadline = self._polls.next_deadline()
        if deadline < self._expires_at or self._expires_at <= self._simulation.now:
            self._expires_at = deadline
            if deadline < inf:
                self._simulation.at(deadline, self._expire, None)

    def _refuse(self, flow: str, reason: str) -> None:
        for book in (self._fate(flow), self.result.total):
            book.refused[reason] = book.refused.get(reason, 0) + 1

    def _fate(self, flow: str) -> Fate:
        flows = self.result.flows
        fate = flows.get(flow)
        if fate is None:
            if len(flows) >= MAX_FLOWS:
                flow = "others"
            fate = flows.setdefault(flow, Fate())
        return fate

    def _is_exempt(self, account: str, device: str | None, *, appservice: bool) -> bool:
        known = self._exempt.get((account, device))
        if known is None:
            if len(self._exempt) >= MAX_FLOWS:
                self._exempt.clear()
            known = self._exempt[account, device] = self._rules.exempt(account, device, appservice)
        return known

    def _service_s(self, one: Recorded) -> float:
        if one.service_s is None:
            self.result.without_duration += 1
            if one.poll_s is not None:
                return one.poll_s
            mean = self._means.get(one.label)
            return _FIRST_GUESS_S if mean is None else mean[1] / mean[0]
        mean = self._means.setdefault(one.label, [0.0, 0.0])
        mean[0] += 1
        mean[1] += one.service_s
        return one.service_s


class _Poll:
    """A long poll on its way."""

    __slots__ = ("exempt", "flow", "one", "service_s")

    def __init__(self, one: Recorded, flow: str, service_s: float, exempt: bool) -> None:  # noqa: FBT001 - a record
        self.one = one
        self.flow = flow
        self.service_s = service_s
        self.exempt = exempt


def _flow_of(one: Recorded) -> str:
    if one.account is None:
        return one.address
    return f"appservice {one.account}" if one.appservice else one.account
