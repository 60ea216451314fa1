import pytest
from gate_support import (
    ADMIT,
    DROPPED,
    FAST,
    LOAD,
    PARK,
    RATE_LIMITED,
    REFUSE,
    REJECTED,
    SERVER_ERROR,
    SLOW,
    TIMEOUT,
    TIMEOUT_S,
    TRANSPORT_ERROR,
    Story,
)

from proxy.policies.background_gate import MAX_IN_LINE, NEVER
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import AdmitsAgain, PermitState, StartedRefusing


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


# The table of the probe, a row each.


def due_probe(story):
    """Refuse, wait, and give the probe."""
    story.shut()
    story.later(60)
    probe = story.admitted("probing")
    assert story.state == "probing"
    return probe


@pytest.mark.parametrize("outcome", [FAST, SLOW, REJECTED])
def test_a_probe_that_is_answered_admits_again_at_a_limit_of_one(story, outcome):
    story.ends(due_probe(story), outcome)
    assert (story.limit, story.state) == (1, "admitting")
    assert story.view.next_probe_in_s is None


def test_a_probe_that_times_out_refuses_twice_as_long_and_its_place_is_held(story):
    probe = due_probe(story)
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
    story.ends(due_probe(story), outcome)
    assert (story.state, story.view.reopened, story.view.held) == ("refusing", 1, 0)
    assert story.view.next_probe_in_s == 120


def test_a_dropped_probe_passes_on_to_the_next_in_line(story):
    probe = due_probe(story)
    second, third = story.parked("a"), story.parked("b")
    assert story.ends(probe, DROPPED) == [second]
    assert (story.state, story.view.reopened) == ("probing", 0)
    assert story.ends(second, DROPPED) == [third]


def test_a_dropped_probe_with_nobody_in_line_leaves_it_to_the_next_to_arrive(story):
    story.ends(due_probe(story), DROPPED)
    assert story.state == "refusing"
    story.admitted("a")
    assert story.state == "probing"


def test_a_probe_whose_client_left_stays_the_only_one_until_the_homeserver_is_done(story):
    probe = due_probe(story)
    waiting = story.parked("a")
    assert story.gate.left(probe, story.now) == []
    assert story.ends(probe, FAST) == [waiting]
    assert story.state == "probing", "nobody waited for its answer, so it taught nothing"


def test_only_one_probe_runs_at_a_time(story):
    due_probe(story)
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
    probe = due_probe(story)
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


# Interactive requests.


def report(story, outcome, flow="user", ago_s=0.0):
    story.now += 1
    story.gate.report_interactive(flow, outcome, story.now - ago_s, story.now)


@pytest.mark.parametrize("outcome", [TIMEOUT, SERVER_ERROR, TRANSPORT_ERROR])
def test_an_interactive_failure_halves_but_not_below_one(outcome):
    story = Story().grow_to(4)
    limits = []
    for _ in range(4):
        report(story, outcome)
        limits.append(story.limit)
    assert limits == [2, 1, 1, 1]
    assert story.state == "admitting"


def test_a_burst_of_interactive_failures_halves_once():
    story = Story().grow_to(4)
    for _ in range(5):
        report(story, SERVER_ERROR, ago_s=20)
    assert story.limit == 2


@pytest.mark.parametrize("probing", [False, True])
def test_interactive_failures_are_not_heard_unless_admitting(story, probing):
    if probing:
        due_probe(story)
    else:
        story.shut()
    before = story.view
    report(story, SERVER_ERROR)
    assert (story.state, story.limit) == (before.state.name.lower(), 0)
    assert story.view.totals.reports_unheard == 1


def test_an_interactive_failure_from_before_the_gate_admitted_again_is_not_heard(story):
    probe = due_probe(story)
    story.later(5)
    story.ends(probe, FAST)
    story.now += 1
    story.gate.report_interactive("user", SERVER_ERROR, story.now - 3, story.now)
    assert story.view.totals.reports_heard == 0


def test_a_429_to_one_user_is_not_heard_until_another_gets_one_too():
    story = Story().grow_to(4)
    report(story, RATE_LIMITED, "one")
    report(story, RATE_LIMITED, "one")
    assert story.limit == 4
    report(story, RATE_LIMITED, "two")
    assert story.limit == 2
    report(story, RATE_LIMITED, "two")
    assert story.limit == 2, "the last change began it anew"


# Report mode, settings, views.


def test_in_report_mode_what_would_wait_runs_outside_the_books(story):
    permits = [story.new(flow) for flow in "aabc"]
    verdicts = [story.gate.take(permit, story.now) for permit in permits]
    assert verdicts == [ADMIT, PARK, ADMIT, PARK]
    assert story.view.active == 2
    assert story.view.totals.outside == 2
    for permit in (permits[1], permits[3]):
        story.gate.sent(permit, story.now)
        assert story.ends(permit, TIMEOUT) == []
    assert story.limit == 2
    assert story.view.waiting == 0


def test_in_report_mode_the_probe_is_as_it_would_be(story):
    story.shut()
    early = story.new("a")
    assert story.gate.take(early, story.now) is PARK
    story.later(60)
    probe = story.new("a")
    assert story.gate.take(probe, story.now) is ADMIT
    story.ends(early, FAST)
    assert story.state == "probing"
    story.ends(probe, FAST)
    assert story.state == "admitting"


def test_a_lower_maximum_holds_at_once():
    story = Story().grow_to(4)
    story.gate.configure(BackgroundSettings(max_limit=2))
    assert story.limit == 2
    assert story.view.max_limit == 2


def test_one_event_tells_of_an_outage_and_one_of_its_end(story):
    story.shut(TRANSPORT_ERROR)
    began_at = story.now
    story.later(60)
    story.ends(story.admitted("a"), SERVER_ERROR)
    story.later(120)
    story.ends(story.admitted("a"), FAST)
    assert story.gate.take_events() == [
        StartedRefusing(TRANSPORT_ERROR, began_at),
        AdmitsAgain(story.now - began_at, story.now),
    ]
    assert story.gate.take_events() == []


def test_statistics_tell_what_waits_since_when_and_what_the_breaker_does(story):
    story.shut()
    story.later(3)
    story.parked("a")
    story.later(7)
    story.parked("b", poll=True)
    view = story.view
    assert (view.waiting, view.oldest_wait_s) == (2, 7)
    assert (view.since_s, view.next_probe_in_s) == (10, 50)


def test_without_anything_to_do_there_is_no_deadline(story):
    assert story.gate.next_deadline() == NEVER
    permit = story.admitted("a")
    assert story.gate.next_deadline() == story.now + TIMEOUT_S
    story.ends(permit, FAST)
    assert story.gate.next_deadline() == NEVER
    story.shut()
    assert story.gate.next_deadline() == NEVER, "with nobody in line the next to arrive is the probe"


def test_calls_for_a_permit_that_is_done_change_nothing(story):
    permit = story.admitted("a")
    story.ends(permit, FAST)
    view, outcomes = story.view, story.view.totals.outcomes[:]
    for call in (story.gate.hold, story.gate.released, story.gate.left, story.gate.withdraw):
        assert call(permit, story.now) == []
    assert story.ends(permit, SERVER_ERROR) == []
    assert story.view == view
    assert story.view.totals.outcomes == outcomes
