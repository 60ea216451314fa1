"""What docs/adr/0010-order-of-dispatch.md says happens, in virtual time, beside a control that must be unfair."""

from dataclasses import replace

import pytest

from proxy.simulation.clients import Client
from proxy.simulation.max_min import Demand, allocation
from proxy.simulation.scenarios import (
    HONEST,
    ROWS,
    Scenario,
    control,
    greedy_clients,
    honest_clients,
    ours,
    play,
)

pytestmark = pytest.mark.slow

# The greatest p99 and the greatest wait of honest requests, in seconds, in rows where every one of them must be served.
LIMITS = {
    "one client, 64 outstanding": (0.0, 0.0),
    "8 greedy clients, 16 outstanding each": (0.008, 0.020),
    "32 greedy clients, 8 outstanding each": (0.299, 0.300),
    "4 clients stuck for 300 s": (0.002, 0.005),
    "8 clients stuck for 300 s, in turn": (0.008, 0.018),
    "64 accounts at one address, 4 outstanding each": (0.002, 0.005),
    "8 greedy, honest requests of 300 ms, 4/s": (0.200, 0.300),
    "32 greedy, honest requests of 300 ms, 1/s": (0.300, 0.300),
    "16 greedy clients with requests of 3 s": (0.7, 1.5),
    "32 at once abandoned 5 s requests": (0.0, 0.0),
}
BY_NAME = {row.name: row for row in ROWS}


@pytest.mark.parametrize("name", LIMITS)
def test_honest_requests_wait_no_longer_than_the_table_says(name):
    p99_s, longest_s = LIMITS[name]
    simulation = play(replace(BY_NAME[name], lasts_s=20.0), ours())
    honest = simulation.outcomes[HONEST]
    assert honest.served > 60
    assert (honest.refused, honest.expired) == (0, 0)
    assert honest.waits.quantile_s(0.99) <= p99_s
    assert honest.waits.longest_s <= longest_s
    assert simulation.most_running <= 16


def test_six_clients_that_stick_one_after_the_other_close_a_lane_of_sixteen():
    """A limit of the promise, not a wish: 4 + 4 + 4 + 2 + 1 + 1 workers. docs/fairness.md tells what helps."""
    simulation = play(replace(BY_NAME["8 clients stuck, one after the other"], lasts_s=20.0), ours())
    assert simulation.outcomes[HONEST].served == 0


@pytest.mark.parametrize(
    ("greedy", "longest_in_services"), [(3, 0.0), (4, 0.0), (8, 0.2), (15, 1.0), (16, 1.0), (32, 2.0)]
)
def test_there_is_no_cliff(greedy, longest_in_services):
    simulation = play(cliff(greedy), ours())
    waits = simulation.outcomes[HONEST].waits
    assert waits.count > 50
    assert waits.longest_s <= longest_in_services + 1e-9


def test_the_control_falls_off_the_cliff_at_four_greedy_clients():
    before, behind = (play(cliff(count), control()).outcomes[HONEST].waits for count in (3, 4))
    assert before.longest_s == 0.0
    assert behind.quantile_s(0.5) == pytest.approx(15.0, abs=1.0)  # (4 * 64 - 16) / 16 services


def cliff(greedy):
    victim = Client(HONEST, "@h", "h", 0.1, rate_per_s=2.0, starts_at=5.0)
    return Scenario("cliff", (victim, *greedy_clients(greedy, 64, 1.0, ramp_s=0.0)), 60.0)


MIXED = {
    "twenty that ask all they can": [(f"@g{i}", f"g{i}", None) for i in range(20)],
    "some that ask little": [(f"@g{i}", f"g{i}", None) for i in range(20)]
    + [(f"@l{i}", f"l{i}", 0.3) for i in range(5)],
    "some that ask half of an even part": [(f"@g{i}", f"g{i}", None) for i in range(30)]
    + [(f"@l{i}", f"l{i}", 0.2) for i in range(10)],
    "forty accounts at one address": [(f"@n{i}", "nat", None) for i in range(40)]
    + [(f"@g{i}", f"g{i}", None) for i in range(20)],
}


@pytest.mark.parametrize("case", MIXED)
def test_what_each_gets_is_max_min_fair(case):
    clients = tuple(
        Client(account, account, address, 0.1, outstanding=6, exponential=address != "nat", ramp_s=0.01)
        if workers is None
        else Client(account, account, address, 0.1, rate_per_s=workers / 0.1, starts_at=0.5)
        for account, address, workers in MIXED[case]
    )
    simulation = play(Scenario(case, clients, 60.0), ours())
    demands = [
        Demand(account, address, float("inf") if w is None else w) for account, address, w in MIXED[case]
    ]
    fair = allocation(demands, workers=16, cap=4.0, address_cap=14.0)
    for account, workers in fair.items():
        got = simulation.outcomes[account].worker_seconds / 60.0
        assert got == pytest.approx(workers, rel=0.12), account


def test_the_control_is_not_max_min_fair_to_who_asks_less():
    clients = (*honest_clients(1, 0.1, 3.0), *greedy_clients(20, 16, 0.1))
    got = {
        name: play(Scenario("", clients, 30.0), who).outcomes[HONEST].worker_seconds
        for name, who in (("ours", ours()), ("control", control()))
    }
    assert got["ours"] == pytest.approx(0.3 * 29, rel=0.05)
    assert got["control"] < 0.3 * got["ours"]


def test_two_hundred_accounts_behind_one_address_start_their_apps():
    """4,800 requests meet a line of 1,024 places: each account has its even part of them, and nobody else notices."""
    crowd = tuple(
        Client(f"@n{i}", f"@n{i}", "nat", 0.05, outstanding=24, starts_at=0.01 * i, stops_at=0.01 * i + 0.005)
        for i in range(200)
    )
    simulation = play(Scenario("", (*crowd, *honest_clients()), 30.0), ours())
    assert min(simulation.outcomes[client.group].served for client in crowd) >= 1024 // 200
    assert sum(simulation.outcomes[client.group].expired for client in crowd) == 0
    honest = simulation.outcomes[HONEST]
    assert (honest.refused, honest.waits.longest_s <= 0.05) == (0, True)


def test_figures_of_a_quiet_time_do_not_count_against_those_who_were_there():
    regulars = tuple(
        Client(HONEST, f"@r{i}", f"r{i}", 0.4, rate_per_s=1.0, starts_at=0.01 * i) for i in range(12)
    )
    stuck = Client(
        "stuck", "@s", "s", 300.0, outstanding=16, starts_at=0.5
    )  # keeps a line, so that a period goes on
    fresh = tuple(replace(client, starts_at=60.0) for client in greedy_clients(32, 8))
    simulation = play(Scenario("", (*regulars, stuck, *fresh), 90.0), ours())
    assert simulation.outcomes[HONEST].waits.longest_s < 2.0
