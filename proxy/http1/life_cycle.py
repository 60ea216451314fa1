"""The life of a client's connection as a table: what may happen in each state, and what then.

    PROXY_HEADER ──▶ HELLO ──▶ HANDSHAKE ──▶ FIRST_BYTE          (what a listener asks for before HTTP)

    FIRST_BYTE ──bytes──▶ HEAD ──head──▶ IN_SERVICE ──answered──▶ PARKED ──bytes──▶ HEAD …
                           │                 │ └──upgraded──▶ TUNNEL
                           └────refused──────┴──last answer──▶ LINGER ──▶ CLOSED

Every state but IN_SERVICE has a deadline of its own; IN_SERVICE ends by the deadline of the homeserver's answer. What a
deadline does is part of the table. A pair that is not in the table is a fault of ours and raises.
"""

from enum import IntEnum


class State(IntEnum):
    """Where a connection is."""

    PROXY_HEADER = 0  # a proxy in front says who connected to it
    HELLO = 1  # TLS: nothing is done until the client has said all of its first word
    HANDSHAKE = 2
    FIRST_BYTE = 3
    HEAD = 4
    IN_SERVICE = 5
    PARKED = 6
    LINGER = 7
    TUNNEL = 8
    CLOSED = 9


class Event(IntEnum):
    """What happens to it."""

    BYTES = 0  # a part of a head arrived
    HEAD_COMPLETE = 1
    ANSWERED = 2  # the answer is written, the connection may serve another request
    ANSWERED_LAST = 3  # the answer is written, the connection must not be used again
    UPGRADED = 4
    DEADLINE = 5
    LEFT = 6  # the client is gone, or its connection cannot be used any more
    STOP = 7  # the process is stopping
    DRAINED = 8  # nothing of use will come any more, but what is written may still be taken
    OPENED = 9  # what stands before HTTP is done
    TLS_BEGINS = 10
    HELLO_COMPLETE = 11
    TURNED_AWAY = 12  # there is no place for it, or another needs its place more


class LifeCycleError(Exception):
    """An event in a state where it cannot happen: a fault of Fairgate's own."""


_TABLE: dict[State, dict[Event, State]] = {
    State.PROXY_HEADER: {
        Event.OPENED: State.FIRST_BYTE,
        Event.TLS_BEGINS: State.HELLO,
        Event.DEADLINE: State.CLOSED,
        Event.LEFT: State.CLOSED,
        Event.TURNED_AWAY: State.CLOSED,
        Event.STOP: State.PROXY_HEADER,
    },
    State.HELLO: {
        Event.HELLO_COMPLETE: State.HANDSHAKE,
        Event.DEADLINE: State.CLOSED,
        Event.LEFT: State.CLOSED,
        Event.TURNED_AWAY: State.CLOSED,
        Event.STOP: State.HELLO,
    },
    State.HANDSHAKE: {
        Event.OPENED: State.FIRST_BYTE,
        Event.DEADLINE: State.CLOSED,
        Event.DRAINED: State.CLOSED,  # it failed; an alert says why
        Event.LEFT: State.CLOSED,
        Event.TURNED_AWAY: State.CLOSED,
        Event.STOP: State.HANDSHAKE,
    },
    State.FIRST_BYTE: {
        Event.BYTES: State.HEAD,
        Event.HEAD_COMPLETE: State.IN_SERVICE,
        Event.ANSWERED_LAST: State.LINGER,
        Event.DEADLINE: State.CLOSED,
        Event.LEFT: State.CLOSED,
        Event.TURNED_AWAY: State.CLOSED,
        Event.STOP: State.FIRST_BYTE,
    },
    State.HEAD: {
        Event.HEAD_COMPLETE: State.IN_SERVICE,
        Event.ANSWERED_LAST: State.LINGER,
        Event.DEADLINE: State.HEAD,  # 408, which ends in ANSWERED_LAST
        Event.DRAINED: State.CLOSED,  # what was sent ahead ends in the middle of a head
        Event.LEFT: State.CLOSED,
        Event.TURNED_AWAY: State.CLOSED,
        Event.STOP: State.HEAD,
    },
    State.IN_SERVICE: {
        Event.ANSWERED: State.PARKED,
        Event.ANSWERED_LAST: State.LINGER,
        Event.UPGRADED: State.TUNNEL,
        Event.DEADLINE: State.CLOSED,  # a client that takes nothing of its answer
        Event.LEFT: State.CLOSED,
        Event.STOP: State.IN_SERVICE,
    },
    State.PARKED: {
        Event.BYTES: State.HEAD,
        Event.HEAD_COMPLETE: State.IN_SERVICE,
        Event.ANSWERED_LAST: State.LINGER,
        Event.DEADLINE: State.CLOSED,
        Event.LEFT: State.CLOSED,
        Event.TURNED_AWAY: State.CLOSED,
        Event.STOP: State.PARKED,  # until `drain` ends it: a request may be on its way
    },
    State.LINGER: {
        Event.DEADLINE: State.CLOSED,
        Event.LEFT: State.CLOSED,
        Event.DRAINED: State.CLOSED,
        Event.STOP: State.LINGER,
    },
    State.TUNNEL: {
        Event.DEADLINE: State.CLOSED,
        Event.LEFT: State.CLOSED,
        Event.STOP: State.TUNNEL,
    },
    State.CLOSED: {
        Event.LEFT: State.CLOSED,
        Event.STOP: State.CLOSED,
    },
}

#: The table as tuples: one index each for state and event, None where the pair is not in it.
TRANSITIONS: tuple[tuple[State | None, ...], ...] = tuple(
    tuple(_TABLE[state].get(event) for event in Event) for state in State
)

#: There is no complete head: nothing is lost for the client but a connection, so it may be turned away (§1.5).
WITHOUT_HEAD: frozenset[State] = frozenset(
    state for state in State if TRANSITIONS[state][Event.TURNED_AWAY] is not None
)
#: What a client waits for before it may send its first request.
BEFORE_HTTP: frozenset[State] = frozenset(
    {State.PROXY_HEADER, State.HELLO, State.HANDSHAKE, State.FIRST_BYTE}
)


def next_state(state: State, event: Event) -> State:
    """Give the state after `event`.

    Raises:
        LifeCycleError: if this cannot happen.
    """
    following = TRANSITIONS[state][event]
    if following is None:
        raise LifeCycleError(f"{event.name} in {state.name}")
    return following
