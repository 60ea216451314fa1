"""Everything that can happen to the workers, in any order, beside a slow model that judges each decision."""

from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share_model import Model

from proxy.policies.worker_share import (
    GRANTED,
    HELD,
    PARKED,
    REFUSED,
    RUNNING,
    WAITING,
    LaneRule,
    PoolRule,
    Ticket,
    WorkerShare,
)

STEPS = 150


def some_rules(random, lanes):
    """Few workers, so that most of the time somebody waits."""
    workers = random.randint(1, 8)
    rules = []
    for index in range(lanes):
        ceiling = workers if index == 0 else random.randint(1, workers)
        rules.append(
            LaneRule(
                name=f"lane {index}",
                workers=ceiling,
                share=random.choice([0.125, 0.25, 0.5, 1.0]),
                max_wait_s=random.choice([3.0, 30.0, 1000.0]),
                line=random.choice([4, 12, 1000]),
                guaranteed=random.randint(0, ceiling) if index == 2 else 0,
                history_per_flow=random.choice([None, 1, 2]),
            )
        )
    return PoolRule(workers, tuple(rules))


class Story:
    """One random history of one pool: what happens is decided by a seed, and judged at every step."""

    def __init__(self, seed):
        self.random = random = Random(seed)
        self.now = 100.0
        self.numbers = count()
        self.rules = some_rules(random, random.choice([1, 1, 2, 3]))
        self.caps_are_kept = True  # until somebody is let run against them, or they are lowered
        self.share = WorkerShare([self.rules], now=self.now)
        self.pace = random.choice([0.0, 0.01, 0.3, 2.0])
        self.model = Model(self.rules, self.now, exact=not self.pace)
        self.accounts = random.randint(1, 12)
        self.addresses = random.randint(1, 8)
        self.rare = random.choice(
            [0.0, 0.02, 0.1]
        )  # how often something other than a request's plain life happens

    def run(self, steps=STEPS):
        for _ in range(steps):
            self.step()
            self.check_books()

    def step(self):
        random = self.random
        if random.random() < 0.7:
            self.now += random.expovariate(1) * self.pace
            self.model.advance(self.now)
        if random.random() < self.rare:
            random.choice(
                [self.take, self.take_one_in_line, self.hold, self.hold, self.withdraw, self.reconfigure]
            )()
        elif random.random() < 0.02:
            self.some_expire()
        elif random.random() < (0.7 if len(self.model.parked) < self.accounts * 2 else 0.3):
            self.ask()
        else:
            self.release()

    def pick(self, tickets):
        return self.random.choice(tickets) if tickets else None

    @property
    def live(self):
        return self.model.running + self.model.held

    def ticket(self):
        random = self.random
        who, where = random.randrange(self.accounts), random.randrange(self.addresses)
        if random.random() < 0.7:
            where = who % self.addresses
        kind = random.choice(["plain"] * 12 + ["history"] * 4 + ["exempt", "uncapped"])
        guest = random.random() < 0.1
        return Ticket(
            random.randrange(len(self.rules.lanes)),
            f"address {where}" if guest else f"account {who}",
            f"address {where}",
            next(self.numbers),
            confirmed=not guest,
            exempt=kind == "exempt",
            address_capped=kind != "uncapped",
            history=kind == "history",
        )

    def serve(self, granted):
        for ticket in granted:
            assert ticket.state == RUNNING
            assert ticket.started_at == self.now
            self.model.served(ticket)
        self.model.settled()

    def ask(self):
        ticket = self.ticket()
        model = self.model
        in_lane = [t for t in model.parked if t.lane == ticket.lane]
        behind_own = any(model.same_queue(t, ticket) for t in model.parked)
        may_run = model.may_run(ticket) and not behind_own
        verdict = self.share.ask(ticket, self.now)
        if may_run:
            assert verdict == GRANTED
            model.granted_at_once(ticket)
        else:
            assert verdict == self.verdict_of_line(ticket, in_lane, self.share.displaced)
            if self.share.displaced:
                model.leaves_line(self.share.displaced)
            if verdict == PARKED:
                assert ticket.state == WAITING
                model.parks(ticket)
        model.settled()

    def verdict_of_line(self, ticket, in_lane, displaced):
        counts = {}
        for other in in_lane:
            counts[other.flow] = counts.get(other.flow, 0) + 1
        own = counts.get(ticket.flow, 0)
        most = max(counts.values(), default=0)
        if len(in_lane) >= self.rules.lanes[ticket.lane].line and own and own + 1 >= most:
            assert displaced is None
            return REFUSED
        if len(in_lane) < self.rules.lanes[ticket.lane].line or most < 2:
            assert displaced is None
        else:
            assert counts[displaced.flow] == most
            assert displaced is [t for t in in_lane if t.flow == displaced.flow][-1]
        return PARKED

    def take(self):
        ticket = self.ticket()
        self.share.take(ticket, self.now)
        assert ticket.state == RUNNING
        self.caps_are_kept = False
        self.model.granted_at_once(ticket)

    def take_one_in_line(self):
        if ticket := self.pick(self.model.parked):
            self.share.take(ticket, self.now)
            self.caps_are_kept = False
            self.model.leaves_line(ticket)
            self.model.granted_at_once(ticket)
            self.serve(self.share.dispatch(self.now))

    def release(self):
        if ticket := self.pick(self.live):
            granted = self.share.release(ticket, self.now)
            self.model.ends(ticket)
            self.serve(granted)
            with pytest.raises(RuntimeError):
                self.share.release(ticket, self.now)

    def hold(self):
        if ticket := self.pick(self.model.running):
            granted = self.share.hold(ticket, self.now)
            assert ticket.state == HELD
            self.model.holds(ticket)
            self.serve(granted)
            with pytest.raises(RuntimeError):
                self.share.hold(ticket, self.now)

    def withdraw(self):
        if ticket := self.pick(self.model.parked):
            granted = self.share.withdraw(ticket, self.now)
            self.model.leaves_line(ticket)
            self.serve(granted)
            with pytest.raises(RuntimeError):
                self.share.withdraw(ticket, self.now)

    def some_expire(self):
        model = self.model
        due = [t for t in model.parked if t.asked_at + model.lane(t).max_wait_s <= self.now]
        expired = self.share.expired(self.now)
        assert sorted(t.owner for t in expired) == [t.owner for t in due]
        for ticket in expired:
            model.leaves_line(ticket)
        self.serve(self.share.dispatch(self.now))

    def reconfigure(self):
        rules = some_rules(self.random, len(self.rules.lanes))
        self.caps_are_kept = False
        granted = self.share.reconfigure([rules], self.now)
        self.rules = self.model.rule = rules
        self.serve(granted)

    def check_books(self):
        model = self.model
        pool = self.share._pools[0]
        assert pool.free == model.pool_free()
        assert pool.waiting == len(model.parked)
        assert pool.active == sum(bool(r.holds or r.waiting) for r in model.flows.values())
        for lane, rule in zip(pool.lanes, self.rules.lanes, strict=True):
            assert lane.free == model.lane_free(rule)
            assert list(lane.parked) == [t for t in model.parked if model.lane(t) is rule]
        for key, record in model.flows.items():
            flow = pool.flows[key]
            assert (flow.holds, flow.waiting, flow.history) == (record.holds, record.waiting, record.history)
        for key, record in model.sources.items():
            source = pool.sources[key]
            assert (source.holds, source.waiting) == (
                record.holds,
                sum(model.source(t) is record for t in model.parked),
            )
            assert {flow.key: n for flow, n in source.flows.items()} == record.flows
            if self.caps_are_kept:
                assert record.holds <= max(1, self.rules.workers * 7 // 8)
        if self.caps_are_kept:
            assert len(model.running) <= self.rules.workers
        due = [t.asked_at + model.lane(t).max_wait_s for t in model.parked]
        assert self.share.next_deadline() == min(due, default=float("inf"))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.integers(0, 2**31))
def test_every_decision_is_that_of_the_slow_model_and_the_books_balance(seed):
    Story(seed).run()
