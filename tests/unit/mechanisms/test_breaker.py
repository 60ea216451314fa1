import itertools

import pytest

from proxy.mechanisms.breaker import TRANSITIONS, Breaker, BreakerEvent, BreakerState

ADMITTING, REFUSING, PROBING = BreakerState
FAILED, PROBE_BEGAN, PROBE_SUCCEEDED, PROBE_FAILED, PROBE_DROPPED = BreakerEvent


def test_every_state_and_event_has_a_way_into_and_out_of_it():
    assert {state for state, _ in TRANSITIONS} == set(BreakerState)
    assert set(TRANSITIONS.values()) == set(BreakerState)
    assert {event for _, event in TRANSITIONS} == set(BreakerEvent)


@pytest.mark.parametrize(
    ("state", "event"),
    [pair for pair in itertools.product(BreakerState, BreakerEvent) if pair not in TRANSITIONS],
)
def test_an_event_that_cannot_happen_is_a_fault_and_changes_nothing(state, event):
    breaker = Breaker(60, 1800, 0.0)
    breaker.state = state
    with pytest.raises(KeyError):
        breaker.move(event, 5.0)
    assert (breaker.state, breaker.since_at) == (state, 0.0)


def test_it_refuses_for_the_cooldown_and_then_until_somebody_probes():
    breaker = Breaker(60, 1800, 0.0)
    breaker.move(FAILED, 100.0)
    assert not breaker.period_over(159.9)
    assert breaker.period_over(160.0)
    assert breaker.move(PROBE_BEGAN, 170.0) is PROBING
    assert not breaker.period_over(500.0), "one probe is enough"


def test_each_probe_that_fails_doubles_the_period_up_to_its_maximum_without_end():
    breaker = Breaker(60, 1800, 0.0)
    breaker.move(FAILED, 0.0)
    periods = []
    for _ in range(2000):
        periods.append(breaker.period_s())
        breaker.move(PROBE_BEGAN, breaker.refuses_until)
        breaker.move(PROBE_FAILED, breaker.refuses_until)
    assert periods[:6] == [60, 120, 240, 480, 960, 1800]
    assert set(periods[6:]) == {1800}


def test_admitting_resets_n_so_that_the_next_outage_begins_short():
    breaker = Breaker(60, 1800, 0.0)
    for event in (FAILED, PROBE_BEGAN, PROBE_FAILED, PROBE_BEGAN, PROBE_FAILED):
        breaker.move(event, 0.0)
    assert breaker.reopened == 2
    breaker.move(PROBE_BEGAN, 0.0)
    breaker.move(PROBE_SUCCEEDED, 10.0)
    assert breaker.reopened == 0
    breaker.move(FAILED, 100.0)
    assert breaker.refuses_until == 160.0


def test_a_dropped_probe_leaves_the_period_over_and_n_as_it_was():
    breaker = Breaker(60, 1800, 0.0)
    breaker.move(FAILED, 0.0)
    breaker.move(PROBE_BEGAN, 60.0)
    assert breaker.move(PROBE_DROPPED, 61.0) is REFUSING
    assert breaker.period_over(61.0)
    assert breaker.reopened == 0
