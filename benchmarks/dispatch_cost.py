"""What a decision about workers costs: `python -m benchmarks.dispatch_cost`.

Without contention: one `ask` and one `release`, the ticket made beforehand. With it: one `release`, which serves the line,
and one `ask` that parks again, among 100 to 10,000 parked requests. CPU time of the best of several rounds, in µs; beside it
how many times longer than a call of an empty function, since machines differ and neighbours disturb.
"""

from collections import deque
from collections.abc import Callable
from math import log2
from time import process_time

from proxy.policies.worker_share import PARKED, LaneRule, PoolRule, Ticket, WorkerShare

ROUNDS = 15
SYNAPSE = [PoolRule(64, (LaneRule("requests", 64, 0.125, 30.0, 1 << 20, history_per_flow=4),))]
GENERIC = [
    PoolRule(
        16,
        (
            LaneRule("requests", 16, 0.25, 30.0, 1 << 20, history_per_flow=4),
            LaneRule("media", 8, 0.25, 30.0, 1 << 20),
            LaneRule("remote", 8, 0.25, 60.0, 1 << 20),
            LaneRule("first_syncs", 4, 0.25, 60.0, 1 << 20),
            LaneRule("federation", 16, 0.25, 50.0, 1 << 20, guaranteed=4),
            LaneRule("appservices", 4, 1.0, 30.0, 1 << 20),
        ),
    )
]


def best_us(run: Callable[[], int]) -> float:
    """Give the least CPU time per operation over all rounds, in µs; `run` gives how many it did."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = process_time()
        operations = run()
        best = min(best, (process_time() - began) / operations)
    return best * 1e6


def nothing(_: object, __: float) -> None:
    """Take as many arguments as `ask`."""


def empty_calls() -> int:
    """Call `nothing`."""
    for _ in range(20_000):
        nothing(None, 1.0)
    return 20_000


def best_uncontended_us(rules: list[PoolRule]) -> float:
    """Ask and release, for 200 known accounts in turn; what making tickets takes is not counted."""
    share = WorkerShare(rules, now=0.0)
    now = 0.0
    best = float("inf")
    for _ in range(ROUNDS):
        tickets = [
            Ticket(0, f"@u{i % 200}:x", f"10.0.0.{i % 200}", None, confirmed=True) for i in range(5_000)
        ]
        ask, release = share.ask, share.release
        began = process_time()
        for ticket in tickets:
            now += 0.001
            ask(ticket, now)
            release(ticket, now)
        best = min(best, (process_time() - began) / len(tickets))
    return best * 1e6


def contended(rules: list[PoolRule], parked: int, flows: int, addresses: int) -> Callable[[], int]:
    """Release the worker held longest, and let the flow that had it ask again."""
    share = WorkerShare(rules, now=0.0)
    lanes = len(rules[0].lanes)
    running: deque[Ticket] = deque()
    now = 0.0
    number = 0
    while share.statistics(now, 0).lanes[0].waiting < parked // lanes:
        flow = number % flows
        ticket = Ticket(number % lanes, flow, -1 - flow % addresses, None, confirmed=True)
        if share.ask(ticket, now) != PARKED:
            running.append(ticket)
        number += 1
        now += 0.0001

    def run() -> int:
        nonlocal now
        decisions = 0
        while decisions < 2_000:
            now += 0.001
            ended = running.popleft()
            served = share.release(ended, now)
            running.extend(served)
            again = Ticket(ended.lane, ended.flow, ended.address, None, confirmed=True)
            if share.ask(again, now) != PARKED:
                running.append(again)
            decisions += 1
        return decisions

    return run


def main() -> None:
    """Print the table."""
    call_us = best_us(empty_calls)
    print(f"a call of an empty function: {call_us:.3f} µs")
    for name, rules in (("64 workers, own lane", SYNAPSE), ("16 workers, 6 lanes", GENERIC)):
        us = best_uncontended_us(rules)
        print(f"uncontended ask + release, {name}: {us:.2f} µs = {us / call_us:.0f} calls")
    for name, rules in (("64 workers, own lane", SYNAPSE), ("16 workers, 6 lanes", GENERIC)):
        for kind, divisor in (("own addresses", 1), ("10 flows an address", 10), ("one address", 1 << 20)):
            cells = []
            for parked in (100, 1_000, 10_000):
                flows = max(20, parked // 5)
                us = best_us(contended(rules, parked, flows, max(1, flows // divisor)))
                cells.append(f"{parked}: {us:.1f} µs ({us / log2(parked):.2f} per doubling)")
            print(f"contended release + ask, {name}, {kind}, by parked requests: " + " · ".join(cells))


if __name__ == "__main__":
    main()
