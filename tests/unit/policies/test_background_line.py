import pytest
from gate_support import ADMIT, FAST, LOAD, PARK, REFUSE, REJECTED, SERVER_ERROR, TIMEOUT, TIMEOUT_S, Story

from proxy.policies.background_gate import MAX_IN_LINE
from proxy.policies.gate_values import PermitState


@pytest.fixture
def story():
    return Story()


# Line, flows and turns.


def test_a_flow_has_at_most_half_the_limit(story):
    story.grow_to(4)
    story.admitted("a")
    story.admitted("a")
    story.parked("a")
    story.admitted("b")


def test_a_flow_has_at_least_one_place(story):
    story.passes("a", SERVER_ERROR)
    assert story.limit == 1
    story.admitted("a")


def test_a_flow_at_its_half_does_not_stop_those_behind_it():
    story = Story()
    first, second = story.admitted("a"), story.admitted("b")
    a, b, c = story.parked("a"), story.parked("b"), story.parked("c")
    assert story.ends(second, FAST) == [b]
    assert story.ends(b, FAST) == [c]
    assert story.ends(first, FAST) == [a]


def test_flows_take_turns_and_within_one_the_first_to_ask_is_first(story):
    story.passes("x", SERVER_ERROR)
    running = story.admitted("x")
    a1, a2, b1, c1, b2 = (story.parked(flow) for flow in "aabcb")
    order = []
    while running:
        granted = story.ends(running, REJECTED)
        running = granted[0] if granted else None
        order += granted
    assert order == [a1, b1, c1, a2, b2]


def test_a_flow_has_two_in_line_polls_included(story):
    story.shut()
    story.parked("a")
    story.parked("a", poll=True)
    verdict, permit = story.ask("a")
    assert verdict is REFUSE
    assert permit.state is PermitState.DONE
    assert story.ask("a", poll=True)[0] is REFUSE
    story.parked("b")


def test_an_exempt_flow_has_all_of_the_limit_and_of_the_line_but_no_more():
    story = Story().grow_to(4)
    permits = [story.new("a", exempt=True) for _ in range(8)]
    verdicts = [story.gate.ask(permit, story.now) for permit in permits]
    assert verdicts == [ADMIT] * 4 + [PARK] * 4
    assert story.ends(permits[0], FAST) == [permits[4]]


def test_the_line_is_bounded_in_all(story):
    story.shut()
    for number in range(MAX_IN_LINE):
        story.parked(f"flow {number}")
    assert story.ask("one more")[0] is REFUSE


def test_who_waits_30_s_is_refused(story):
    story.shut()
    first = story.parked("a")
    story.later(10)
    second = story.parked("b")
    story.later(20)
    assert story.refused == [first]
    story.later(10)
    assert story.refused == [first, second]
    assert story.view.waiting == 0
    assert story.view.totals.expired == 2


def test_waiting_ends_with_the_client_and_is_no_failure(story):
    story.shut()
    permit = story.parked("a")
    assert story.gate.left(permit, story.now) == []
    story.later(59)
    assert story.later(10) == []
    assert story.refused == []


def test_a_request_given_back_unsent_frees_its_place_for_the_next(story):
    story.passes("x", SERVER_ERROR)
    permit = story.new("a")
    story.gate.ask(permit, story.now)
    waiting = story.parked("b")
    assert story.gate.left(permit, story.now) == [waiting]


def test_hints_name_the_next_probe_or_when_a_place_comes_free(story):
    assert story.gate.retry_after_s(story.now) == 15
    story.admitted("a")
    story.admitted("b")
    story.later(TIMEOUT_S)
    assert story.gate.retry_after_s(story.now) == 60
    story = Story().shut()
    assert story.gate.retry_after_s(story.now) == 60
    story.later(40)
    assert story.gate.retry_after_s(story.now) == 20
    story.later(30)
    assert story.gate.retry_after_s(story.now) == 15


# From 1 to 0.


def test_a_flow_that_is_alone_brings_the_limit_to_zero(story):
    story.passes("a", SERVER_ERROR)
    story.passes("a", SERVER_ERROR)
    assert (story.limit, story.state) == (0, "refusing")


@pytest.mark.parametrize("outcome", [TIMEOUT, *LOAD])
def test_a_flow_alone_does_not_bring_it_to_zero_where_another_asked(outcome):
    story = Story()
    story.passes("a", SERVER_ERROR)
    story.passes("b", FAST)
    story.passes("a", outcome)
    assert (story.limit, story.state) == (1, "admitting")
    story.later(900)
    story.passes("a", outcome)
    assert (story.limit, story.state) == (1, "admitting")
    story.later(900)
    story.passes("b", outcome)
    assert (story.limit, story.state) == (0, "refusing")


def test_who_waits_since_before_the_change_has_asked_too(story):
    running, other = story.admitted("a"), story.admitted("x")
    story.parked("b")
    story.ends(running, SERVER_ERROR)
    story.ends(other, FAST)
    permit = story.parked("a")
    (b,) = story.gate._places.active_items()
    assert story.ends(b, FAST) == [permit]
    story.ends(permit, SERVER_ERROR)
    assert story.limit == 1


def test_asking_before_the_last_change_does_not_count(story):
    story.passes("b", FAST)
    story.passes("a", SERVER_ERROR)
    story.passes("a", SERVER_ERROR)
    assert story.state == "refusing"
