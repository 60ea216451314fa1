"""Who gives way when there are too many connections (behaviour.md §1.5). Pure.

Up to three quarters of the greatest number nothing is counted, and a connection costs nothing here. Beyond, there is a crowd:
every connection has a place in the group of its address, and groups are kept apart by how many of theirs wait, which means
without a complete head: before the first byte, in a head, or parked. Who gives way is the connection that waits longest, of
the address with most that wait; of addresses with equally many the one that has had as many for longest. So a new client
displaces who holds most, and an address with one connection is displaced only where nobody has two.

A trusted proxy's connections have no place: they are many people's, and neither capped nor displaced.

Every call is O(1). Bound: a `Place` for each connection and a group for each address, at most 450 bytes together where every
address has one connection; the caller lets the crowd go when fewer than five eighths are left, so that it is not made anew
again and again.
"""

from collections import OrderedDict
from enum import Enum
from typing import Final, Generic, TypeVar

C = TypeVar("C")


class Verdict(Enum):
    """What becomes of a new connection. FULL: it may enter in the place of another."""

    ADMIT = "admit"
    PER_ADDRESS = "per_address"
    FULL = "full"


ADMIT: Final = Verdict.ADMIT
PER_ADDRESS: Final = Verdict.PER_ADDRESS
FULL: Final = Verdict.FULL


class _Group(Generic[C]):
    """One address: how many connections it has, and those of them that wait, linked from the first to the last."""

    __slots__ = ("count", "crowd", "first", "key", "last", "waiting")

    def __init__(self, crowd: "Crowd[C]", key: str) -> None:
        self.crowd = crowd
        self.key = key
        self.count = 0
        self.waiting = 0
        self.first: Place[C] | None = None
        self.last: Place[C] | None = None


class Place(Generic[C]):
    """One connection's; see the module. It waits when it is made."""

    __slots__ = ("_group", "_waits", "after", "before", "connection")

    def __init__(self, connection: C, group: _Group[C]) -> None:
        self.connection = connection
        self._group = group
        self.before: Place[C] | None = None
        self.after: Place[C] | None = None
        self._waits = False
        group.count += 1
        self.waits()

    def waits(self) -> None:
        """It has no complete head, from now on."""
        if self._waits:
            return
        self._waits = True
        group = self._group
        last = group.last
        self.before = last
        if last is None:
            group.first = self
        else:
            last.after = self
        group.last = self
        group.waiting += 1
        group.crowd.moved(group, group.waiting - 1)

    def serves(self) -> None:
        """It has one, or is about to end. Harmless if it does not wait."""
        if not self._waits:
            return
        self._waits = False
        group, before, after = self._group, self.before, self.after
        if before is None:
            group.first = after
        else:
            before.after = after
        if after is None:
            group.last = before
        else:
            after.before = before
        self.before = self.after = None
        group.waiting -= 1
        group.crowd.moved(group, group.waiting + 1)

    def leave(self) -> None:
        """The connection is gone, or another's from now on; the place is not used again."""
        self.serves()
        group = self._group
        group.count -= 1
        if not group.count:
            del group.crowd.groups[group.key]


class Crowd(Generic[C]):
    """All connections that have a place, by address. `max_connections` counts the others too."""

    def __init__(self, max_connections: int, per_address: int) -> None:
        self.max_connections = max_connections
        self.per_address = per_address
        self.groups: dict[str, _Group[C]] = {}
        #: By how many wait; each in the order in which they came to have as many.
        self._by_waiting: dict[int, OrderedDict[_Group[C], None]] = {}
        self._spare: OrderedDict[_Group[C], None] | None = None  # what was emptied last
        self._most = 0

    def verdict(self, key: str | None, total: int) -> Verdict:
        """Judge a new connection beside `total` others; `key` is its address, None for one that has no place."""
        group = None if key is None else self.groups.get(key)
        if (
            group is not None
            and group.count >= self.per_address
            and total >= crowded_from(self.max_connections)
        ):
            return PER_ADDRESS
        return FULL if total >= self.max_connections else ADMIT

    def enter(self, key: str, connection: C) -> Place[C]:
        """Give a connection its place."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = _Group(self, key)
        return Place(connection, group)

    def first_to_go(self) -> C | None:
        """Give the connection that gives way; None if nobody waits."""
        if not self._most:
            return None
        group = next(iter(self._by_waiting[self._most]))
        return None if group.first is None else group.first.connection

    def count(self, key: str) -> int:
        """Give how many connections an address has."""
        group = self.groups.get(key)
        return 0 if group is None else group.count

    def moved(self, group: _Group[C], waiting_before: int) -> None:
        """Keep the order after one more, or one less, of a group waits."""
        by_waiting, waiting = self._by_waiting, group.waiting
        if waiting_before:
            others = by_waiting[waiting_before]
            del others[group]
            if not others:
                self._spare = by_waiting.pop(waiting_before)
        if waiting:
            others = by_waiting.get(waiting) or self._new_order(waiting)
            others[group] = None
        if waiting > self._most or self._most not in by_waiting:
            self._most = waiting  # a step of one, so nobody is between

    def _new_order(self, waiting: int) -> OrderedDict[_Group[C], None]:
        order, self._spare = self._spare, None
        if order is None:
            order = OrderedDict()
        self._by_waiting[waiting] = order
        return order


def crowded_from(max_connections: int) -> int:
    """Give the number of connections beside which a new one begins a crowd."""
    return max_connections * 3 // 4


def is_calm(max_connections: int, total: int) -> bool:
    """Tell whether so few are left that a crowd may be let go."""
    return total < max_connections * 5 // 8
