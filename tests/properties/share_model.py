"""A slow model of who gets a worker, every step O(n) and in the words of behaviour.md §4: it judges what WorkerShare does.

It integrates figures over time at every event and looks at everybody in line for every decision. Figures are floats that were
summed up in another order than those it judges, so between two that differ by less than EPSILON either may be first.
"""

from dataclasses import dataclass, field

EPSILON = 1e-6


def counted(held, workers):
    """A quarter of the workers may be held; of what is beyond as many as there are workers do not count, all others do."""
    uncounted = [n for n in range(held) if n >= workers // 4][:workers]
    return held - len(uncounted)


@dataclass(eq=False)
class Record:
    holds: int = 0
    waiting: int = 0
    history: int = 0
    figure: float = 0.0
    unsynced: bool = False  # waits since before this period began: its figure is of the one before
    by_lane: dict = field(default_factory=dict)
    flows: dict = field(default_factory=dict)


class Model:
    """One pool."""

    def __init__(self, rule, now, *, exact=False, lead=10.0, address_share=0.875):
        self.exact = exact  # no time passes: figures are those of the level, ties are ties
        self.rule, self.lead, self.address_share = rule, lead, address_share
        self.flows, self.sources, self.parked = {}, {}, []
        self.running, self.held = [], []
        self.services = []
        self.level = self.began = 0.0
        self.began_with = 0.0
        self.contended = False
        self.now = now

    # What is free and who may have it.

    def lane(self, ticket):
        return self.rule.lanes[ticket.lane]

    def ceiling(self, lane):
        return min(lane.workers, self.rule.workers)

    def used(self, lane):
        held = sum(self.lane(t) is lane for t in self.held)
        return sum(self.lane(t) is lane for t in self.running) + counted(held, self.ceiling(lane))

    def lane_free(self, lane):
        return self.ceiling(lane) - self.used(lane)

    def pool_free(self):
        return self.rule.workers - len(self.running) - counted(len(self.held), self.rule.workers)

    def really_free(self, lane):
        held = sum(self.lane(t) is lane for t in self.held)
        running = sum(self.lane(t) is lane for t in self.running)
        return min(
            self.ceiling(lane) - running - held,
            self.rule.workers - len(self.running) - len(self.held),
        )

    def flow(self, ticket):
        return self.flows.setdefault(ticket.flow, Record(figure=self.began_with))

    def source(self, ticket):
        if ticket.exempt or not ticket.address_capped:
            return None
        return self.sources.setdefault(ticket.address, Record(figure=self.began_with))

    def may_run(self, ticket):
        lane = self.lane(ticket)
        free = min(self.lane_free(lane), self.pool_free())
        if free < 1:
            return False
        flow, source = self.flow(ticket), self.source(ticket)
        cap = max(1, int(self.rule.workers * lane.share))
        if not ticket.exempt and flow.holds and not flow.holds < min(self.really_free(lane), cap):
            return False
        if ticket.history and lane.history_per_flow is not None and flow.history >= lane.history_per_flow:
            return False
        if source is not None:
            if source.holds >= max(1, int(self.rule.workers * self.address_share)):
                return False
            of_lane = max(1, int(self.ceiling(lane) * self.address_share))
            if len(self.rule.lanes) > 1 and source.by_lane.get(ticket.lane, 0) >= of_lane:
                return False
        return True

    def same_queue(self, a, b):
        return (a.flow, a.lane, a.history, a.exempt) == (b.flow, b.lane, b.history, b.exempt)

    def heads(self):
        for i, ticket in enumerate(self.parked):
            if not any(self.same_queue(ticket, older) for older in self.parked[:i]):
                yield ticket

    def candidates(self):
        return [t for t in self.heads() if self.may_run(t)]

    def key(self, ticket):
        flow, source = self.flow(ticket), self.source(ticket)
        of_source = -1.0 if source is None else min(source.figure, self.level + self.lead)
        return max(flow.figure, of_source), flow.figure, self.parked.index(ticket)

    # Time and figures.

    def advance(self, now):
        step = now - self.now
        self.now = now
        for flow in self.flows.values():
            flow.figure += flow.holds * step
        for source in self.sources.values():
            source.figure += source.holds / min(8, max(1, len(source.flows))) * step

    def touch(self, ticket):
        """What an event does to the figures of those it is about, while somebody waits."""
        if not self.parked:
            return
        flow, source = self.flow(ticket), self.source(ticket)
        self.sync(flow)
        if source is not None:
            source.figure = min(source.figure, self.level + self.lead)

    def sync(self, flow):
        if flow.unsynced:
            flow.unsynced = False
            flow.figure = self.began_with + flow.holds * (self.now - self.began)

    def begin_period(self):
        self.level += self.lead
        self.began, self.began_with = self.now, self.level
        for flow in self.flows.values():
            if flow.waiting:
                flow.unsynced = True
            else:
                flow.unsynced = False
                flow.figure = self.level
        for source in self.sources.values():
            source.figure = self.level

    def turn_s(self):
        """An even share of the workers while one request of average length runs."""
        if not self.services:
            return 0.0
        active = sum(bool(flow.holds or flow.waiting) for flow in self.flows.values())
        return sum(self.services) / len(self.services) * min(1.0, self.rule.workers / max(1, active))

    # Events.

    def granted_at_once(self, ticket):
        self.touch(ticket)
        self._enter(ticket)
        self._start(ticket)

    def parks(self, ticket):
        flow, source = self.flow(ticket), self.source(ticket)
        starved = not flow.holds and self.pool_free() <= 0
        if not self.parked or (starved and not self.contended):
            self.begin_period()
            self.contended = starved
        if not flow.waiting:
            self.sync(flow)
            flow.figure = min(flow.figure, self.level + self.lead)
        if source is not None:
            source.figure = min(source.figure, self.level + self.lead)
        self._enter(ticket)
        flow.waiting += 1
        self.parked.append(ticket)

    def served(self, ticket):
        """Judge a grant from the line, and book it."""
        candidates = self.candidates()
        assert ticket in candidates, "served against the rules"
        guaranteed = [t for t in candidates if self.used(self.lane(t)) < self.lane(t).guaranteed]
        if guaranteed:
            first_lane = min(t.lane for t in guaranteed)
            candidates = [t for t in guaranteed if t.lane == first_lane]
            assert ticket in candidates, "a guarantee comes first"
        key = self.key(ticket)
        for other in candidates:
            assert not less(self.key(other), key, exact=self.exact), (
                f"{other.owner} had less than {ticket.owner}"
            )
        if not guaranteed:
            self.level = max(self.level, key[0])
        flow, source = self.flow(ticket), self.source(ticket)
        self.touch(ticket)
        least = self.level - self.turn_s()
        flow.figure = max(flow.figure, least)
        if source is not None:
            source.figure = max(source.figure, least)
        self.parked.remove(ticket)
        flow.waiting -= 1
        self._start(ticket)

    def leaves_line(self, ticket):
        source = self.source(ticket)
        if source is not None:
            source.figure = min(source.figure, self.level + self.lead)
        self.parked.remove(ticket)
        self.flow(ticket).waiting -= 1
        self._leave(ticket)

    def holds(self, ticket):
        self.running.remove(ticket)
        self.held.append(ticket)

    def ends(self, ticket):
        self.touch(ticket)
        (self.running if ticket in self.running else self.held).remove(ticket)
        flow, source = self.flow(ticket), self.source(ticket)
        self.services.append(self.now - ticket.started_at)
        flow.holds -= 1
        flow.history -= ticket.history
        if self.parked:
            flow.figure = min(flow.figure, self.level + self.lead)
        if source is not None:
            source.holds -= 1
            source.by_lane[ticket.lane] -= 1
        self._leave(ticket)

    def settled(self):
        """After all grants of an event."""
        assert not self.candidates(), "a worker stays free though somebody may have it"
        if self.pool_free() > 0:
            self.contended = False

    def _start(self, ticket):
        flow, source = self.flow(ticket), self.source(ticket)
        flow.holds += 1
        flow.history += ticket.history
        if source is not None:
            source.holds += 1
            source.by_lane[ticket.lane] = source.by_lane.get(ticket.lane, 0) + 1
        self.running.append(ticket)

    def _enter(self, ticket):
        source = self.source(ticket)
        if source is not None and ticket.confirmed:
            source.flows[ticket.flow] = source.flows.get(ticket.flow, 0) + 1

    def _leave(self, ticket):
        source = self.source(ticket)
        if source is not None and ticket.confirmed:
            source.flows[ticket.flow] -= 1
            if not source.flows[ticket.flow]:
                del source.flows[ticket.flow]


def less(a, b, *, exact):
    """Tell whether key `a` comes before `b` for certain: where figures differ only by rounding, either may."""
    for left, right in zip(a[:2], b[:2], strict=True):
        if abs(left - right) > EPSILON:
            return left < right
        if not exact:
            return False
    return a[2] < b[2]
