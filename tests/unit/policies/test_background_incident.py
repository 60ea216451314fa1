"""The incident of the record, told again: nine hours of a homeserver that goes on with requests nobody waits for any more.

Two accounts page history without end and give up after 30 s. The homeserver works on what was given up for a median of 18
minutes. Without a gate more than two hundred such requests run at once in the end.
"""

from itertools import pairwise
from random import Random

import pytest
from virtual_world import Backfill, GatedSide, IncidentHomeserver, OpenSide, World

HOUR_S = 3600.0
OUTAGE_S = 9 * HOUR_S
SEEDS = (1, 2, 3)


def incident(side_of, seed, *, stuck_share=1.0):
    world = World()
    homeserver = IncidentHomeserver(world, Random(seed), stuck_share, OUTAGE_S)
    side = side_of(world, homeserver)
    clients = [Backfill(world, side, account) for account in "ab"]
    return world, homeserver, side, clients


def test_without_a_gate_the_work_piles_up():
    world, homeserver, side, clients = incident(OpenSide, 1)
    world.run_until(OUTAGE_S)
    assert len(side.admitted_at) > 2000
    assert sum(client.abandoned for client in clients) > 2000
    assert homeserver.most_running > 150


@pytest.mark.parametrize("seed", SEEDS)
def test_background_is_at_zero_within_the_first_burst(seed):
    world, homeserver, side, _ = incident(GatedSide, seed)
    world.run_until(31)
    view = side.gate.statistics(world.now)
    assert (view.limit, view.active, view.held) == (1, 0, 2)
    world.run_until(180)
    assert side.admitted_at == [0.0, 0.0], "no more was let through, while the homeserver was busy with these"
    assert homeserver.most_running == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_homeserver_that_does_not_recover_gets_one_request_at_a_time(seed):
    world, homeserver, side, clients = incident(GatedSide, seed)
    world.run_until(60)
    side.most_active = 0
    world.run_until(OUTAGE_S)
    assert side.most_active == 1
    later = [instant for instant in side.admitted_at if instant > 2 * HOUR_S]
    gaps = [after - before for before, after in pairwise(later)]
    assert min(gaps) >= 600
    assert gaps[-1] >= 1800, "and one every half hour in the end"
    assert sum(client.abandoned for client in clients) <= 30
    assert homeserver.most_running <= 6, "what outlasts its hold of 15 minutes"
    assert side.gate.totals.outages == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_one_probe_finds_that_it_recovered_and_the_limit_grows_again(seed):
    world, _, side, _ = incident(GatedSide, seed)
    world.run_until(OUTAGE_S)
    probes_before = side.gate.totals.probes
    world.run_until(OUTAGE_S + 1800)
    view = side.gate.statistics(world.now)
    assert side.gate.totals.probes - probes_before == 1
    assert view.state.name == "ADMITTING"
    assert (view.limit, view.held) == (4, 0)
    assert len(side.gate.take_events()) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_where_half_the_requests_still_succeed_a_fortieth_of_the_work_is_left(seed):
    world, homeserver, side, clients = incident(GatedSide, seed, stuck_share=0.48)
    world.run_until(OUTAGE_S)
    assert sum(client.abandoned for client in clients) <= 60
    assert homeserver.most_running <= 9
    assert side.served_at, "what can be done is done"
