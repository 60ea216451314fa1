import pytest

from proxy.http1.life_cycle import TRANSITIONS, Event, LifeCycleError, State, next_state

OPEN = [state for state in State if state != State.CLOSED]


@pytest.mark.parametrize("state", State)
def test_a_client_may_leave_in_every_state(state):
    assert next_state(state, Event.LEFT) == State.CLOSED


@pytest.mark.parametrize("state", OPEN)
def test_every_state_ends_by_deadlines_alone(state):
    # The deadline of a head is answered with 408; that answer is the last.
    path = {State.HEAD: [Event.DEADLINE, Event.ANSWERED_LAST, Event.DEADLINE]}.get(state, [Event.DEADLINE])
    for event in path:
        state = next_state(state, event)
    assert state == State.CLOSED


@pytest.mark.parametrize("state", State)
def test_stopping_can_happen_in_every_state_and_breaks_off_nothing(state):
    assert next_state(state, Event.STOP) == state


@pytest.mark.parametrize("event", Event)
def test_nothing_leads_out_of_closed(event):
    assert TRANSITIONS[State.CLOSED][event] in (None, State.CLOSED)


def test_what_is_not_in_the_table_raises_with_its_name():
    with pytest.raises(LifeCycleError, match="ANSWERED in PARKED"):
        next_state(State.PARKED, Event.ANSWERED)


def test_every_state_can_be_reached():
    reached = {State.FIRST_BYTE}
    for _ in State:
        reached |= {after for state in reached for after in TRANSITIONS[state] if after is not None}
    assert reached == set(State)
