import pytest

from proxy.policies.worker_share import LaneRule, PoolRule, WorkerShare
from proxy.simulation.clients import Client, numbers, start_client
from proxy.simulation.oldest_first import OldestFirst
from proxy.simulation.simulator import OTHERS, Request, Simulation


def share(workers=1, *, max_wait_s=30.0, line=1024):
    return WorkerShare([PoolRule(workers, (LaneRule("requests", workers, 1.0, max_wait_s, line),))], now=0.0)


def request(at, flow="alice", service_s=1.0, **what):
    return Request(at, what.pop("group", flow), flow, f"address of {flow}", service_s, **what)


def test_a_stream_of_requests_is_played_in_the_order_of_time():
    simulation = Simulation(share())
    simulation.run(10.0, [request(0.0), request(0.5, "bob"), request(0.7)])
    alice, bob = simulation.outcomes["alice"], simulation.outcomes["bob"]
    assert (alice.served, bob.served) == (2, 1)
    assert bob.waits.longest_s == pytest.approx(0.5)
    assert alice.waits.longest_s == pytest.approx(1.3)
    assert simulation.now == 10.0


def test_who_would_be_refused_or_wait_too_long_is_told():
    simulation = Simulation(share(max_wait_s=3.0, line=2))
    simulation.run(100.0, [request(0.0, service_s=50.0), *[request(1.0) for _ in range(5)]])
    outcome = simulation.outcomes["alice"]
    assert (outcome.asked, outcome.served, outcome.refused, outcome.expired) == (6, 1, 3, 2)


def test_a_client_that_leaves_the_line_never_runs():
    simulation = Simulation(share())
    simulation.run(10.0, [request(0.0, service_s=5.0), request(1.0, "bob", leaves_after_s=1.0)])
    bob = simulation.outcomes["bob"]
    assert (bob.left, bob.served, bob.worker_seconds) == (1, 0, 0.0)


def test_a_client_that_leaves_in_service_keeps_the_homeserver_at_work():
    simulation = Simulation(share(workers=4))
    simulation.run(10.0, [request(0.0, service_s=5.0, leaves_after_s=1.0)])
    outcome = simulation.outcomes["alice"]
    assert (outcome.left, outcome.served, outcome.worker_seconds) == (1, 0, 5.0)


def test_groups_are_bounded():
    simulation = Simulation(share(workers=4), max_groups=2)
    simulation.run(10.0, [request(0.0, f"flow {i}") for i in range(4)])
    assert set(simulation.outcomes) == {"flow 0", "flow 1", OTHERS}
    assert simulation.outcomes[OTHERS].served == 2


def test_a_paced_client_sends_one_at_a_time_and_catches_up():
    simulation = Simulation(share())
    start_client(simulation, Client("slow", "a", "a", 0.5, rate_per_s=1.0, stops_at=10.0))
    simulation.run(20.0)
    assert simulation.outcomes["slow"].served == 10
    simulation = Simulation(share(workers=2))
    start_client(simulation, Client("slow", "a", "a", 2.0, rate_per_s=1.0, stops_at=10.0))
    simulation.run(20.0)
    assert simulation.most_running == 1


def test_a_client_that_is_refused_comes_back_when_it_is_told_unless_it_is_rude():
    asked = {}
    for rude in (False, True):
        simulation = Simulation(share(line=1))
        start_client(simulation, Client("greedy", "a", "a", 100.0, outstanding=3, is_rude=rude))
        simulation.run(5.0)
        asked[rude] = simulation.outcomes["greedy"].asked
    assert asked[False] <= 8
    assert asked[True] > 1000


def test_the_control_serves_the_oldest_whose_flow_is_below_its_cap():
    simulation = Simulation(OldestFirst(2, cap=1))
    simulation.run(
        10.0,
        [*[request(0.0, service_s=2.0) for _ in range(3)], request(0.1, "bob", 2.0), request(0.2, "carol")],
    )
    assert simulation.outcomes["bob"].waits.longest_s == 0.0
    assert simulation.outcomes["carol"].waits.longest_s == pytest.approx(1.9)


def test_numbers_are_even_and_the_same_for_the_same_seed():
    draw, again = numbers(7), numbers(7)
    drawn = [draw() for _ in range(4_000)]
    assert drawn == [again() for _ in range(4_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.5, abs=0.02)
    assert 0 < min(drawn) <= max(drawn) <= 1
