import pytest
from gate_support import DROPPED, FAST, LOAD, REJECTED, SERVER_ERROR, SLOW, TIMEOUT, TIMEOUT_S, Story


@pytest.fixture
def story():
    return Story()


# The table of the probe, a row each.


@pytest.mark.parametrize("outcome", [FAST, SLOW, REJECTED])
def test_a_probe_that_is_answered_admits_again_at_a_limit_of_one(story, outcome):
    story.ends(story.due_probe(), outcome)
    assert (story.limit, story.state) == (1, "admitting")
    assert story.view.next_probe_in_s is None


def test_a_probe_that_times_out_refuses_twice_as_long_and_its_place_is_held(story):
    probe = story.due_probe()
    story.later(TIMEOUT_S)
    assert (story.state, story.view.reopened, story.view.held) == ("refusing", 1, 1)
    assert story.view.next_probe_in_s == 120
    story.later(500)
    story.parked("b")
    assert story.later(20) == [], "the cooldown is over, the hold is not"
    assert story.gate.released(probe, story.now) != []
    assert story.state == "probing"


@pytest.mark.parametrize("outcome", LOAD)
def test_a_probe_that_fails_refuses_twice_as_long_and_holds_nothing(story, outcome):
    story.ends(story.due_probe(), outcome)
    assert (story.state, story.view.reopened, story.view.held) == ("refusing", 1, 0)
    assert story.view.next_probe_in_s == 120


def test_a_dropped_probe_passes_on_to_the_next_in_line(story):
    probe = story.due_probe()
    second, third = story.parked("a"), story.parked("b")
    assert story.ends(probe, DROPPED) == [second]
    assert (story.state, story.view.reopened) == ("probing", 0)
    assert story.ends(second, DROPPED) == [third]


def test_a_dropped_probe_with_nobody_in_line_leaves_it_to_the_next_to_arrive(story):
    story.ends(story.due_probe(), DROPPED)
    assert story.state == "refusing"
    story.admitted("a")
    assert story.state == "probing"


def test_a_probe_whose_client_left_stays_the_only_one_until_the_homeserver_is_done(story):
    probe = story.due_probe()
    waiting = story.parked("a")
    assert story.gate.left(probe, story.now) == []
    assert story.ends(probe, FAST) == [waiting]
    assert story.state == "probing", "nobody waited for its answer, so it taught nothing"


def test_only_one_probe_runs_at_a_time(story):
    story.due_probe()
    story.parked("a")
    story.parked("b")
    assert story.later(20) == []


def test_the_first_in_line_is_the_probe_when_its_time_comes(story):
    story.shut()
    story.later(45)
    first = story.parked("a")
    story.parked("b")
    assert story.later(15) == [first]
    assert story.state == "probing"


def test_who_arrives_when_a_probe_is_due_stands_behind_who_waits(story):
    story.shut()
    story.later(45)
    first = story.parked("a")
    story.now += 15
    story.parked("b")
    assert story.gate.expired(story.now).granted == [first]


def test_the_cooldown_doubles_up_to_half_an_hour_and_starts_anew_after_an_outage(story):
    story.shut()
    cooldowns = []
    for _ in range(7):
        cooldowns.append(story.view.next_probe_in_s)
        story.later(story.view.next_probe_in_s)
        story.ends(story.admitted("a"), SERVER_ERROR)
    assert cooldowns == [60, 120, 240, 480, 960, 1800, 1800]
    story.later(1800)
    story.ends(story.admitted("a"), FAST)
    assert story.view.reopened == 0
    story.shut()
    assert story.view.next_probe_in_s == 60


def test_a_probe_waits_for_held_places_of_before_too(story):
    story.passes("a", TIMEOUT)
    story.later(900)
    story.passes("a", TIMEOUT)
    assert (story.state, story.view.held) == ("refusing", 1)
    story.later(880)
    probe = story.parked("b")
    assert story.later(20) == [probe]


def test_an_outcome_from_before_the_outage_changes_nothing():
    story = Story()
    early = story.admitted("a", poll=True)
    story.shut()
    story.ends(early, SERVER_ERROR)
    assert (story.state, story.view.reopened, story.view.next_probe_in_s) == ("refusing", 0, 60)
