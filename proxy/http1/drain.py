"""When a stop may end what has nothing under way (behaviour.md §1.8). Pure.

A client may send its next request in the moment in which its parked connection is closed, and that request is lost. So parked
connections are the last to go: each serves one more request, its answer says that it is the last, and what is closed in the end
are those that nobody used. If together they asked for nothing in `QUIET_S`, some λ ≲ 1/QUIET_S requests a second are to be
expected of all of them, and as a close takes w seconds to be seen, λ·w of them are lost: at w = 10 ms in one of 100 stops.

Long polls go with them only if somebody waits for that: clients at a listening socket that was handed over, which the next
process will accept when this one is gone, or accepts now, and then nobody waits.
"""

from enum import Enum
from typing import Final

QUIET_S: Final = 1.0
#: For how long clients wait at the socket before it is sure that nobody else accepts them.
_HELD_UP_S: Final = 0.25
#: For how long they wait at most for parked connections to be quiet.
_HELD_UP_AT_MOST_S: Final = 2.0


class Verdict(Enum):
    """What may be ended now."""

    GO_ON = "nothing"
    END_PARKED = "parked connections"
    END_WAITS = "parked connections, long polls and tunnels"


class Drain:
    """One stop, looked at a few times a second from its beginning on."""

    def __init__(self, now: float) -> None:
        self._quiet_since = now
        self._held_up_since: float | None = None
        self._asked_total = -1

    def look(self, now: float, *, asked_total: int, busy: int, waits: int, newcomers: bool) -> Verdict:
        """Judge by numbers of connections: `busy` have work under way, `waits` are long polls and tunnels, others are parked.

        `asked_total` counts requests; `newcomers` tells whether clients wait at a socket that was handed over.
        """
        if busy or asked_total != self._asked_total:
            self._quiet_since = now
            self._asked_total = asked_total
        if not newcomers:
            self._held_up_since = None
        elif self._held_up_since is None:
            self._held_up_since = now
        if busy:
            return Verdict.GO_ON
        quiet = now - self._quiet_since >= QUIET_S
        if self._held_up_since is not None:
            held_up_s = now - self._held_up_since
            if held_up_s >= _HELD_UP_AT_MOST_S or (quiet and held_up_s >= _HELD_UP_S):
                return Verdict.END_WAITS
        return Verdict.END_PARKED if quiet and not waits else Verdict.GO_ON
