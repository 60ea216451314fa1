import pytest
from gate_support import (
    ADMIT,
    FAST,
    PARK,
    RATE_LIMITED,
    SERVER_ERROR,
    TIMEOUT,
    TIMEOUT_S,
    TRANSPORT_ERROR,
    Story,
)

from proxy.http1.deadlines import NEVER
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import AdmitsAgain, StartedRefusing


@pytest.fixture
def story():
    return Story()


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
        story.due_probe()
    else:
        story.shut()
    before = story.view
    report(story, SERVER_ERROR)
    assert (story.state, story.limit) == (before.state.name.lower(), 0)
    assert story.view.totals.reports_unheard == 1


def test_an_interactive_failure_from_before_the_gate_admitted_again_is_not_heard(story):
    probe = story.due_probe()
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
        StartedRefusing(TRANSPORT_ERROR),
        AdmitsAgain(story.now - began_at),
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
