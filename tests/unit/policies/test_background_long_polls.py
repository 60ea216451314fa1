import pytest
from gate_support import DROPPED, FAST, LOAD, REJECTED, SLOW, Story


@pytest.fixture
def story():
    return Story()


# Long polls.


def test_a_long_poll_takes_no_place_and_is_admitted_at_any_load(story):
    story.admitted("a")
    story.admitted("b")
    for _ in range(5):
        story.admitted("a", poll=True)
    assert story.view.active == 2


def test_a_long_polls_latency_teaches_nothing():
    story = Story(grow_after=1)
    for outcome in (FAST, SLOW, REJECTED, DROPPED):
        permit = story.admitted("a", poll=True)
        story.later(90)
        story.ends(permit, outcome)
    assert story.limit == 2


@pytest.mark.parametrize("outcome", LOAD)
def test_a_long_poll_that_fails_halves_the_limit_and_can_shut_the_gate(story, outcome):
    for _ in range(2):
        story.ends(story.admitted("a", poll=True), outcome)
    assert story.state == "refusing"
    assert story.view.held == 0


def test_a_long_poll_that_times_out_halves_and_leaves_a_held_place(story):
    permit = story.admitted("a", poll=True)
    assert story.gate.hold(permit, story.now) == []
    assert (story.limit, story.view.held) == (1, 1)
    story.parked("b")
    assert story.gate.released(permit, story.now) != []


def test_long_polls_wait_while_the_gate_does_not_admit_and_all_go_on_with_it(story):
    probe = story.due_probe()
    polls = [story.parked(flow, poll=True) for flow in "abc"]
    assert story.view.waiting == 3
    assert story.view.oldest_wait_s == 0
    assert story.ends(probe, FAST) == polls


def test_a_long_poll_is_the_probe_when_nothing_else_waits(story):
    story.shut()
    story.later(50)
    poll, request = story.parked("a", poll=True), story.parked("b")
    assert story.later(10) == [request]
    assert story.ends(request, DROPPED) == [poll]
    assert story.state == "probing"
    story.later(25)
    story.ends(poll, SLOW)
    assert (story.limit, story.state) == (1, "admitting")


def test_a_long_poll_as_probe_that_times_out_is_held(story):
    story.shut()
    story.later(60)
    poll = story.admitted("a", poll=True)
    story.gate.hold(poll, story.now)
    assert (story.state, story.view.held, story.view.reopened) == ("refusing", 1, 1)
