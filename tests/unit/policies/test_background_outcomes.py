import pytest
from gate_support import ADMIT, DROPPED, FAST, LOAD, REJECTED, SERVER_ERROR, SLOW, TIMEOUT, TIMEOUT_S, Story

from proxy.policies.gate_values import PermitState


@pytest.fixture
def story():
    return Story()


# The table of outcomes, a row each.


def test_ten_fast_successes_since_the_last_change_raise_the_limit_by_one(story):
    for _ in range(9):
        story.passes("a", FAST)
    assert story.limit == 2
    story.passes("a", FAST)
    assert story.limit == 3
    for _ in range(9):
        story.passes("a", FAST)
    assert story.limit == 3
    story.passes("a", FAST)
    assert story.limit == 4


def test_the_limit_never_grows_beyond_its_maximum(story):
    for _ in range(50):
        story.passes("a", FAST)
    assert story.limit == 4


@pytest.mark.parametrize("outcome", [SLOW, REJECTED, DROPPED])
def test_slow_successes_other_4xx_and_dropped_requests_teach_nothing(story, outcome):
    for _ in range(9):
        story.passes("a", FAST)
    for _ in range(30):
        story.passes("a", outcome)
    assert story.limit == 2
    story.passes("a", FAST)
    assert story.limit == 3, "nor do they take back what was counted"


@pytest.mark.parametrize("outcome", [TIMEOUT, *LOAD])
def test_timeouts_5xx_429_and_transport_errors_halve_the_limit(outcome):
    story = Story().grow_to(4)
    story.passes("a", outcome)
    assert story.limit == 2


def test_halving_rounds_down():
    story = Story().grow_to(3)
    story.passes("a", SERVER_ERROR)
    assert story.limit == 1


def test_a_cut_forgets_the_successes_before_it(story):
    for _ in range(9):
        story.passes("a", FAST)
    story.passes("a", SERVER_ERROR)
    for _ in range(9):
        story.passes("a", FAST)
    assert story.limit == 1
    story.passes("a", FAST)
    assert story.limit == 2


def test_one_burst_cuts_once():
    story = Story().grow_to(4)
    burst = [story.admitted(flow) for flow in "abcd"]
    story.later(1)
    for permit in burst:
        story.ends(permit, SERVER_ERROR)
    assert story.limit == 2
    assert story.view.totals.cuts == 1


def test_a_success_from_before_the_cut_does_not_grow_the_limit():
    story = Story(grow_after=1).grow_to(4)
    early, failing = story.admitted("a"), story.admitted("b")
    story.ends(failing, SERVER_ERROR)
    story.ends(early, FAST)
    assert story.limit == 2


def test_a_failure_from_before_a_growth_is_of_the_same_era():
    story = Story(grow_after=1)
    early = story.admitted("a")
    story.passes("b", FAST)
    assert story.limit == 3
    story.ends(early, SERVER_ERROR)
    assert story.limit == 1


def test_halving_cancels_nothing_and_admits_nobody_until_places_in_use_are_below_the_limit():
    story = Story().grow_to(4)
    burst = [story.admitted(flow) for flow in "abcd"]
    waiting = story.parked("e")
    assert story.ends(burst[0], SERVER_ERROR) == []
    assert story.limit == 2
    assert story.ends(burst[1], FAST) == []
    assert story.view.active == 2
    assert story.ends(burst[2], FAST) == [waiting]


def test_a_client_that_leaves_before_the_timeout_gives_no_outcome_whatever_follows(story):
    permit = story.admitted("a")
    story.later(10)
    assert story.gate.left(permit, story.now) == []
    assert story.view.active == 1, "the homeserver still works on it"
    story.ends(permit, SERVER_ERROR)
    assert story.limit == 2
    assert story.view.active == 0


def test_a_timeout_counts_though_its_client_left(story):
    permit = story.admitted("a")
    story.later(TIMEOUT_S - 0.1)
    story.gate.left(permit, story.now)
    story.later(0.1)
    assert permit.state is PermitState.HELD
    assert story.limit == 1


def test_an_answer_after_the_timeout_is_a_timeout_even_where_the_sweep_comes_later(story):
    permit = story.admitted("a")
    story.now += TIMEOUT_S
    story.ends(permit, FAST)
    assert story.limit == 1
    assert story.view.held == 0, "it is done, so nothing is held"


def test_the_timeout_counts_from_sending_and_not_from_admission(story):
    permit = story.new("a")
    assert story.gate.ask(permit, story.now) is ADMIT
    story.later(25)
    story.gate.sent(permit, story.now)
    story.later(29)
    story.ends(permit, SLOW)
    assert story.limit == 2


def test_a_resend_neither_restarts_the_timeout_nor_gives_an_outcome(story):
    permit = story.admitted("a")
    story.later(20)
    story.gate.sent(permit, story.now)
    story.later(10)
    assert permit.state is PermitState.HELD
    assert sum(story.view.totals.outcomes) == 1


def test_fast_is_under_half_of_the_requests_own_timeout(story):
    permit = story.new("a")
    assert story.gate.fast_within_s(permit) == 15


# Held places.


def test_a_timed_out_request_keeps_its_place_until_the_homeserver_is_done(story):
    permit = story.admitted("a")
    story.later(TIMEOUT_S)
    assert (story.view.active, story.view.held) == (0, 1)
    waiting = story.parked("b")
    story.later(5)
    assert story.send(story.gate.released(permit, story.now)) == [waiting]
    assert (story.view.active, story.view.held) == (1, 0)


def test_a_hold_ends_after_900_s_and_what_comes_then_changes_nothing(story):
    permit = story.admitted("a")
    story.later(TIMEOUT_S + 899)
    assert story.view.held == 1
    story.later(1)
    assert story.view.held == 0
    before = story.view.totals.outcomes[:]
    assert story.ends(permit, SERVER_ERROR) == []
    assert story.gate.released(permit, story.now) == []
    assert story.view.totals.outcomes == before


def test_a_held_request_that_fails_in_the_end_gives_no_second_outcome(story):
    permit = story.admitted("a")
    story.later(TIMEOUT_S)
    assert story.limit == 1
    story.ends(permit, SERVER_ERROR)
    assert story.limit == 1
    assert sum(story.view.totals.outcomes) == 1


def test_a_held_place_is_charged_to_its_flow():
    story = Story().grow_to(4)
    timing_out = [story.admitted("a"), story.admitted("a")]
    story.later(TIMEOUT_S)
    story.ends(timing_out[0], FAST)
    assert story.limit == 2
    story.parked("a")
    story.admitted("b")


def test_a_burst_of_timeouts_shuts_the_gate_by_its_held_places(story):
    story.admitted("a")
    story.admitted("b")
    story.later(TIMEOUT_S)
    assert (story.limit, story.view.held, story.state) == (1, 2, "admitting")
    story.parked("c")
    assert story.later(29.9) == []
