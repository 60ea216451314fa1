"""What hostile clients cost: memory and descriptors for each that stays, CPU for each byte of those that send.

A few hundred of each kind; `hostile.py` runs ten thousand. Budgets of CPU are ratios within one run.
"""

import pytest
from faults_support import own_descriptors, site
from hostile import (
    CLOSES_LANES,
    FLOWS,
    HELD,
    MOST_OF_A_HEAD,
    SETTINGS,
    TAKES_WORKERS,
    costliest_head,
    cpu_per_byte,
    hold,
    honest_go,
)

CONNECTIONS = 150
SMALL_CONNECTIONS = 1_000  # of kinds that cost less than what memory is handed out in
HONEST_RATIO = 10  # of p99; ten thousand are held against two, where the machine is quiet


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    with site(tmp_path_factory.mktemp("alone"), **SETTINGS) as (fairgate, _):
        yield fairgate


@pytest.mark.parametrize("name", HELD)
def test_a_hostile_client_that_stays_takes_no_more_than_its_budget_and_leaves_nothing(tmp_path, name, alone):
    with site(tmp_path, **SETTINGS) as (fairgate, _):
        before = own_descriptors(fairgate)
        held = hold(fairgate, alone, name, SMALL_CONNECTIONS if HELD[name][1] < 5_000 else CONNECTIONS)
        assert held.bytes_each <= HELD[name][1]
        assert held.left == {}
        assert name in CLOSES_LANES or held.honest_p99 < HONEST_RATIO
        assert name in TAKES_WORKERS or held.honest_p99_meanwhile < float("inf")
        assert own_descriptors(fairgate) <= before


def test_no_head_costs_more_than_honest_requests_of_its_size(tmp_path):
    with site(tmp_path, **SETTINGS) as (fairgate, _):
        honest = cpu_per_byte(fairgate, honest_go, 0.12)
        cost, which = costliest_head(fairgate)
    assert cost / honest < MOST_OF_A_HEAD, which


def test_no_hostile_byte_costs_much_more_than_an_honest_one(tmp_path):
    with site(tmp_path, **SETTINGS) as (fairgate, _):
        honest = cpu_per_byte(fairgate, honest_go, 0.12)
        costs = {name: cpu_per_byte(fairgate, go, 0.12) / honest for name, (go, _) in FLOWS.items()}
    assert {name: cost for name, cost in costs.items() if cost > FLOWS[name][1]} == {}
