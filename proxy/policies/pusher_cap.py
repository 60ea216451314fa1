"""An account registers at most `max_per_user` pushers (behaviour.md §7.1).

What exists is asked of the homeserver for each registration, and registrations of one account take turns, first come first
served, from before the list is asked until the homeserver is done with the registration: so two of them cannot both find the
last place free. Deletions take no turn. Where the list cannot be had, the last one known holds; with none known the
registration passes, and is counted.

Bounds: a line of an account is of requests that hold workers, and who waited `MAX_WAIT_S` for a turn is `overdue`; the lists of
`_MAX_KNOWN` accounts are remembered, at most `_MAX_PUSHERS` each, as hashes. A call is O(pushers of the account). Left to
others: asking, answering, waiting.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Final, Generic, TypeVar

from proxy.matrix.pusher_request import PusherRequest, key_of

Owner = TypeVar("Owner")

MAX_WAIT_S: Final = 30.0  # as long as a line lasts (§4.1)
_MAX_KNOWN: Final = 1024
_MAX_PUSHERS: Final = 256


class PusherVerdict(IntEnum):
    """What is to be done: send the request on, ask for the account's list, wait for a turn, answer 400."""

    PASS = 0
    LIST = 1
    WAIT = 2
    REFUSE = 3


_PASS, _LIST, _WAIT, _REFUSE = PusherVerdict


class PusherPermit(Generic[Owner]):
    """One request's turn, given back by `end` exactly once. `account` is who is charged, `owner` the caller's."""

    __slots__ = ("account", "asked_at", "owner", "request")

    def __init__(self, account: Hashable, request: PusherRequest, owner: Owner, now: float) -> None:
        self.account = account
        self.asked_at = now
        self.request = request
        self.owner = owner


@dataclass(slots=True)
class PusherTotals:
    """What happened since the start: plain counters."""

    passed: int = 0
    refused: int = 0
    unlisted: int = 0  # passed because nothing was known


@dataclass(frozen=True, slots=True)
class PusherStatistics:
    """A picture of the cap; `totals` is the policy's own object, to be read at once."""

    max_per_user: int
    in_turn: int
    waiting: int
    known: int
    totals: PusherTotals


class PusherCap(Generic[Owner]):
    """The cap of all accounts."""

    def __init__(self, max_per_user: int) -> None:
        self.max_per_user = max_per_user
        self.totals = PusherTotals()
        self._turns: dict[Hashable, deque[PusherPermit[Owner]]] = {}  # the first of each has its turn
        self._known: OrderedDict[Hashable, frozenset[int]] = OrderedDict()

    def ask(self, permit: PusherPermit[Owner]) -> PusherVerdict:
        """Judge a request. LIST: ask for the account's pushers, then call `listed`. WAIT: an `end` gives the permit."""
        if not permit.request.registers:
            self.totals.passed += 1
            return _PASS
        line = self._turns.get(permit.account)
        if line is None:
            self._turns[permit.account] = deque((permit,))
            return _LIST
        line.append(permit)
        return _WAIT

    def listed(self, permit: PusherPermit[Owner], existing: frozenset[int] | None) -> PusherVerdict:
        """Judge a registration by the account's pushers, None if they cannot be had. PASS or REFUSE; `end` follows."""
        if existing is None:
            existing = self._known.get(permit.account)
        else:
            self._remember(permit.account, existing)
        if existing is None:
            self.totals.unlisted += 1
        elif len(existing) >= self.max_per_user and permit.request.may_be_new(existing):
            self.totals.refused += 1
            return _REFUSE
        self.totals.passed += 1
        return _PASS

    def end(self, permit: PusherPermit[Owner], *, succeeded: bool) -> PusherPermit[Owner] | None:
        """The homeserver is done with a request, or it was refused or given up; gives whose turn it is now: LIST.

        Not when a client leaves what was sent on: the homeserver may yet register it. `succeeded`: a 2xx.
        """
        if succeeded:
            self._learn(permit)
        line = self._turns.get(permit.account)
        if line is None or permit not in line:
            return None
        had_turn = line[0] is permit
        line.remove(permit)
        if not line:
            del self._turns[permit.account]
            return None
        return line[0] if had_turn else None

    def overdue(self, now: float) -> list[PusherPermit[Owner]]:
        """Give who waited too long for a turn, to be refused; `end` follows for each."""
        return [
            permit
            for line in self._turns.values()
            for permit in islice(line, 1, None)
            if permit.asked_at + MAX_WAIT_S <= now
        ]

    def statistics(self) -> PusherStatistics:
        """Give a picture of the cap."""
        return PusherStatistics(
            max_per_user=self.max_per_user,
            in_turn=len(self._turns),
            waiting=sum(len(line) - 1 for line in self._turns.values()),
            known=len(self._known),
            totals=self.totals,
        )

    def _learn(self, permit: PusherPermit[Owner]) -> None:
        """Bring the remembered list up to date, where a request can be read in one way only."""
        known = self._known.get(permit.account)
        request = permit.request
        if known is None or len(request.app_ids) != 1 or len(request.pushkeys) != 1:
            return
        (app_id,), (pushkey,) = request.app_ids, request.pushkeys
        pusher = {key_of(app_id, pushkey)}
        self._remember(permit.account, known | pusher if request.registers else known - pusher)

    def _remember(self, account: Hashable, existing: frozenset[int]) -> None:
        if len(existing) > _MAX_PUSHERS:
            self._known.pop(account, None)
            return
        self._known[account] = existing
        self._known.move_to_end(account)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
