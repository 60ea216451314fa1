"""Who attacks whom, as data: the rows of docs/adr/0010-order-of-dispatch.md.

Four honest clients, each its own account and address, send 20 requests a second of 5 ms, one at a time. Beside them
attackers, whose requests take 300 ms unless it says otherwise. 16 workers, a flow at most four. Pure.
"""

from dataclasses import dataclass
from typing import Final

from proxy.policies.worker_share import LaneRule, PoolRule, WorkerShare
from proxy.simulation.clients import Client, start_client
from proxy.simulation.oldest_first import OldestFirst
from proxy.simulation.simulator import Scheduler, Simulation

WORKERS: Final = 16
SHARE: Final = 0.25
HONEST: Final = "honest"
ATTACKER: Final = "attacker"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Clients, and for how long in seconds."""

    name: str
    clients: tuple[Client, ...]
    lasts_s: float = 60.0


def honest_clients(count: int = 4, service_s: float = 0.005, rate_per_s: float = 20.0) -> tuple[Client, ...]:
    """Give clients that ask one at a time; they begin within the first second, when attackers are under way."""
    return tuple(
        Client(HONEST, f"@h{i}", f"h{i}", service_s, rate_per_s=rate_per_s, starts_at=1.0 + 0.0037 * i)
        for i in range(count)
    )


def greedy_clients(
    count: int,
    outstanding: int,
    service_s: float = 0.3,
    *,
    address: str | None = None,
    leaves_after_s: float | None = None,
    exponential: bool = False,
    ramp_s: float = 0.02,
) -> tuple[Client, ...]:
    """Give clients that always have so many requests in flight; all at one address if that is given."""
    return tuple(
        Client(
            ATTACKER,
            f"@a{i}",
            address or f"a{i}",
            service_s,
            outstanding=outstanding,
            starts_at=0.0013 * i,
            ramp_s=ramp_s,
            exponential=exponential,
            gives_up_after_s=leaves_after_s,
        )
        for i in range(count)
    )


ROWS: Final = (
    Scenario("one client, 64 outstanding", (*honest_clients(), *greedy_clients(1, 64))),
    Scenario("8 greedy clients, 16 outstanding each", (*honest_clients(), *greedy_clients(8, 16))),
    Scenario("32 greedy clients, 8 outstanding each", (*honest_clients(), *greedy_clients(32, 8))),
    Scenario("4 clients stuck for 300 s", (*honest_clients(), *greedy_clients(4, 16, 300.0))),
    Scenario("8 clients stuck for 300 s, in turn", (*honest_clients(), *greedy_clients(8, 16, 300.0))),
    Scenario(
        "64 accounts at one address, 4 outstanding each",
        (*honest_clients(), *greedy_clients(64, 4, address="nat")),
    ),
    Scenario(
        "8 greedy, honest requests of 300 ms, 4/s", (*honest_clients(4, 0.3, 4.0), *greedy_clients(8, 16))
    ),
    Scenario(
        "32 greedy, honest requests of 300 ms, 1/s", (*honest_clients(4, 0.3, 1.0), *greedy_clients(32, 8))
    ),
    Scenario(
        "16 greedy clients with requests of 3 s",
        (*honest_clients(), *greedy_clients(16, 8, 3.0, exponential=True)),
    ),
    Scenario(
        "32 at once abandoned 5 s requests",
        (*honest_clients(), *greedy_clients(1, 32, 5.0, leaves_after_s=0.1)),
    ),
    Scenario(
        "8 clients stuck, one after the other", (*honest_clients(), *greedy_clients(8, 16, 300.0, ramp_s=0.0))
    ),
)


def ours(workers: int = WORKERS, share: float = SHARE, max_wait_s: float = 30.0) -> WorkerShare:
    """Give the rules under test: one lane, a pool of its own."""
    line = max(1024, 64 * workers)
    return WorkerShare(
        [PoolRule(workers, (LaneRule("requests", workers, share, max_wait_s, line),))], now=0.0
    )


def control(workers: int = WORKERS, share: float = SHARE, max_wait_s: float = 30.0) -> OldestFirst:
    """Give what to compare with: the same cap, oldest first."""
    return OldestFirst(workers, max(1, int(workers * share)), max_wait_s)


def play(scenario: Scenario, scheduler: Scheduler) -> Simulation:
    """Run a scenario to its end."""
    simulation = Simulation(scheduler)
    for seed, client in enumerate(scenario.clients):
        start_client(simulation, client, seed)
    simulation.run(scenario.lasts_s)
    return simulation
