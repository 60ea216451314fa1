"""One first sync of an account runs at a time: it costs the homeserver more than anything else (behaviour.md §5.5). Pure.

Others of the account wait for their turn, first come, first served, each at most `max_wait_s`. A first sync whose client left
does not count any more: its account may begin the next at once, while the homeserver goes on with the old one. Bound: an
account has `LINE` waiting; every call is O(1).
"""

from collections import OrderedDict
from collections.abc import Hashable
from enum import IntEnum
from typing import Final, Generic, TypeVar

from proxy.http1.deadlines import NEVER

Owner = TypeVar("Owner")

LINE: Final = 16  # of an account; a client that opens more has a loop


class Turn(IntEnum):
    """What is to be done with a first sync."""

    BEGIN = 0
    WAIT = 1
    REFUSE = 2


_BEGIN, _WAIT, _REFUSE = Turn


class FirstSync(Generic[Owner]):
    """One first sync's turn."""

    __slots__ = ("account", "owner", "until")

    def __init__(self, account: Hashable, owner: Owner) -> None:
        self.account = account
        self.owner = owner
        self.until = NEVER


class FirstSyncs(Generic[Owner]):
    """All of one homeserver."""

    def __init__(self, max_wait_s: float) -> None:
        self.max_wait_s = max_wait_s
        self.refused_total = 0
        #: The first of each has its turn.
        self._lines: dict[Hashable, OrderedDict[FirstSync[Owner], None]] = {}
        self._waits: OrderedDict[FirstSync[Owner], None] = OrderedDict()  # by `until`

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waits)

    @property
    def live(self) -> int:
        """How many have it."""
        return len(self._lines)

    def ask(self, sync: FirstSync[Owner], now: float) -> Turn:
        """Give a first sync its turn, or a place behind the others of its account."""
        line = self._lines.get(sync.account)
        if line is None:
            self._lines[sync.account] = OrderedDict({sync: None})
            return _BEGIN
        if len(line) > LINE:
            self.refused_total += 1
            return _REFUSE
        line[sync] = None
        sync.until = now + self.max_wait_s
        self._waits[sync] = None
        return _WAIT

    def end(self, sync: FirstSync[Owner]) -> FirstSync[Owner] | None:
        """It ended, was given up, or its client left; give whose turn it is now. A second call has no effect."""
        line = self._lines.get(sync.account)
        if line is None or sync not in line:
            return None
        had_turn = next(iter(line)) is sync
        del line[sync]
        self._waits.pop(sync, None)
        if not line:
            del self._lines[sync.account]
            return None
        if not had_turn:
            return None
        following = next(iter(line))
        del self._waits[following]
        return following

    def expired(self, now: float) -> list[FirstSync[Owner]]:
        """End the waits whose time is over, and give them."""
        overdue = []
        while self._waits:
            sync = next(iter(self._waits))
            if sync.until > now:
                break
            self.end(sync)
            self.refused_total += 1
            overdue.append(sync)
        return overdue
