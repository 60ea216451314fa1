from collections import deque

import pytest

from proxy.mechanisms.fair_queue import FairQueue
from proxy.policies.worker_share import LaneRule, PoolRule, Ticket, WorkerShare


class Counted(FairQueue):
    """Counts how often somebody's rank is looked at."""

    looks = 0

    def _turn(self, bundle, now):
        Counted.looks += 1
        return super()._turn(bundle, now)


@pytest.mark.parametrize("addresses", [1, 40, 400])
def test_a_decision_looks_at_few_however_many_are_in_line(addresses):
    share = WorkerShare([PoolRule(16, (LaneRule("requests", 16, 0.25, 1e9, 10**9),))], now=0.0)
    (lane,) = share._lanes
    lane.queue.__class__ = Counted
    now = 0.0
    running = deque()
    for number in range(1_200):
        ticket = Ticket(0, number % 400, -1 - number % addresses, None, confirmed=True)
        if not share.ask(ticket, now):
            running.append(ticket)
        now += 0.001
    Counted.looks = 0
    for _ in range(1_000):
        now += 0.02
        ended = running.popleft()
        running.extend(share.release(ended, now))
        again = Ticket(0, ended.flow, ended.address, None, confirmed=True)
        if not share.ask(again, now):
            running.append(again)
    assert Counted.looks <= 12 * 1_000


def test_what_is_kept_of_ranks_does_not_grow_with_time():
    share = WorkerShare([PoolRule(2, (LaneRule("requests", 2, 1.0, 1e9, 10**9),))], now=0.0)
    (lane,) = share._lanes
    now = 0.0
    running = deque()
    for number in range(60):
        ticket = Ticket(0, number % 20, number % 10, None, confirmed=True)
        if not share.ask(ticket, now):
            running.append(ticket)
    sizes = set()
    for _ in range(2_000):
        now += 0.1
        ended = running.popleft()
        running.extend(share.release(ended, now))
        again = Ticket(0, ended.flow, ended.address, None, confirmed=True)
        if not share.ask(again, now):
            running.append(again)
        ranked = lane.queue._by_holds.values()
        queues = [bundle.queues for bundle in lane.queue._bundles.values()]
        sizes.add(sum(len(heap._entries) for heap in (*ranked, *queues)))
    assert max(sizes) < 400
    assert len(lane.queue._by_holds) <= 3
