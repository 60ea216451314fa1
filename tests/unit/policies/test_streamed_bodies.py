"""Bodies that nobody vouches for hold a quarter of the workers at most; federation has its guaranteed part for its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.settings import Settings
from proxy.matrix.endpoint import Lane
from proxy.matrix.profiles import figures
from proxy.policies.lanes import pool_rules
from proxy.policies.settings import given_figures
from proxy.policies.streamed_bodies import StreamedBodies

LANES = [lane for lane in Lane if lane is not Lane.NONE]


def rules(profile="generic"):
    settings = Settings()
    return pool_rules(figures(profile, given_figures(settings.lanes, settings.sync)), history_per_account=4)


def places(bodies, lane):
    """Take until no more are to be had; give how many that were."""
    taken = 0
    while bodies.take(lane):
        taken += 1
    return taken


def test_in_one_pool_all_lanes_share_a_quarter_of_it():
    bodies = StreamedBodies(rules())
    assert places(bodies, Lane.MEDIA) == 4
    assert [places(bodies, lane) for lane in LANES] == [0, 0, 0, 0, 4, 0, 1]


def test_federation_loses_nothing_to_clients_and_clients_nothing_to_it():
    bodies = StreamedBodies(rules())
    assert places(bodies, Lane.FEDERATION) == 4
    assert places(bodies, Lane.REQUESTS) == 4


@pytest.mark.parametrize("profile", ["synapse", "dendrite", "conduit", "generic"])
def test_with_lanes_of_their_own_each_has_a_quarter_of_its_own_workers(profile):
    bodies = StreamedBodies(rules(profile))
    for pool in rules(profile):
        numbers = [Lane[rule.name.upper()] for rule in pool.lanes]
        most = sum(places(bodies, number) for number in numbers)
        guaranteed = sum(rule.guaranteed for rule in pool.lanes)
        assert most == max(1, pool.workers // 4) + guaranteed


def test_a_place_given_back_is_there_for_another_lane():
    bodies = StreamedBodies(rules())
    places(bodies, Lane.MEDIA)
    bodies.give_back(Lane.MEDIA)
    assert bodies.take(Lane.REMOTE)
    assert not bodies.take(Lane.MEDIA)


def test_a_place_is_given_back_once():
    bodies = StreamedBodies(rules())
    bodies.take(Lane.MEDIA)
    bodies.give_back(Lane.MEDIA)
    with pytest.raises(RuntimeError, match="no body"):
        bodies.give_back(Lane.MEDIA)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(LANES)), max_size=60), st.integers(0, 60))
def test_the_books_stay_right_while_the_lanes_change(steps, changes_after):
    bodies = StreamedBodies(rules())
    held = dict.fromkeys(LANES, 0)
    for number, (takes, lane) in enumerate(steps):
        if number == changes_after:
            bodies.resize(rules("synapse"))
        if takes:
            held[lane] += bodies.take(lane)
        elif held[lane]:
            bodies.give_back(lane)
            held[lane] -= 1
        assert bodies.streaming == sum(held.values())
    for lane, number in held.items():
        for _ in range(number):
            bodies.give_back(lane)
    assert bodies.streaming == 0
