import pytest

from proxy.http1.life_cycle import (
    BEFORE_HTTP,
    TRANSITIONS,
    WITHOUT_HEAD,
    Event,
    LifeCycleError,
    State,
    next_state,
)

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
    reached = {State.PROXY_HEADER}
    for _ in State:
        reached |= {after for state in reached for after in TRANSITIONS[state] if after is not None}
    assert reached == set(State)


@pytest.mark.parametrize("state", State)
def test_only_a_connection_without_a_complete_head_may_be_turned_away(state):
    may_be = TRANSITIONS[state][Event.TURNED_AWAY] == State.CLOSED
    needs_a_head = TRANSITIONS[state][Event.HEAD_COMPLETE] is not None or state in BEFORE_HTTP
    assert may_be == needs_a_head == (state in WITHOUT_HEAD)


@pytest.mark.parametrize("state", BEFORE_HTTP - {State.FIRST_BYTE})
def test_no_byte_is_read_as_a_request_before_its_turn(state):
    assert TRANSITIONS[state][Event.BYTES] is None
    assert TRANSITIONS[state][Event.HEAD_COMPLETE] is None


@pytest.mark.parametrize("state", State)
def test_nothing_leads_back_to_what_stands_before_http(state):
    before = [State.PROXY_HEADER, State.HELLO, State.HANDSHAKE, State.FIRST_BYTE]
    after = {state for state in TRANSITIONS[state] if state is not None}
    earlier = before[: before.index(state)] if state in before else before
    assert not after & set(earlier)
