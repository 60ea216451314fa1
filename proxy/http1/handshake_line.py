"""Which TLS handshake begins next, and who waits (behaviour.md §1.2). Pure.

A handshake costs the event loop 0.2 to 0.7 ms at once, more than ten requests, and then waits for its client. So at most
`total` are under way, `per_address` of them of one address, and they begin one after the other, addresses in turn: who opens a
thousand connections waits behind himself. Waiting is bounded by each connection's deadline, which is the caller's.

Every call is O(1). Nothing is kept of an address that neither waits nor has a handshake under way.
"""

from collections import OrderedDict
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class _Address(Generic[T]):
    __slots__ = ("limit", "under_way", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.under_way = 0
        self.waiting: OrderedDict[T, None] = OrderedDict()


class HandshakeLine(Generic[T]):
    """See the module. Who waits or is under way is told apart by identity and belongs to one address."""

    def __init__(self, total: int, per_address: int) -> None:
        self.waiting = 0
        self._total = total
        self._per_address = per_address
        self._addresses: dict[str, _Address[T]] = {}
        #: Those with somebody who may begin, whose turn it is first.
        self._turns: OrderedDict[str, None] = OrderedDict()
        #: Under way, the earliest first, with the instant of its beginning.
        self._under_way: OrderedDict[T, tuple[str, float]] = OrderedDict()

    @property
    def under_way(self) -> int:
        """How many have begun and are not over."""
        return len(self._under_way)

    def arrive(self, key: str, one: T, *, capped: bool = True) -> None:
        """Stand in line; `capped`: the limit by address holds."""
        address = self._addresses.get(key)
        if address is None:
            limit = self._per_address if capped else self._total
            address = self._addresses[key] = _Address(limit)
        address.waiting[one] = None
        self.waiting += 1
        self._settle(key, address)

    @property
    def may_begin(self) -> bool:
        """Whether somebody may begin now."""
        return bool(self._turns) and len(self._under_way) < self._total

    def begin(self, now: float) -> T | None:
        """Give the next whose handshake begins; None if nobody may."""
        if not self.may_begin:
            return None
        key, _ = self._turns.popitem(last=False)
        address = self._addresses[key]
        one, _ = address.waiting.popitem(last=False)
        self.waiting -= 1
        address.under_way += 1
        self._under_way[one] = (key, now)
        self._settle(key, address)
        return one

    def leave(self, key: str, one: T) -> None:
        """It is over, or waits no longer. Harmless if it is not here."""
        address = self._addresses.get(key)
        if address is None:
            return
        if self._under_way.pop(one, None) is not None:
            address.under_way -= 1
        elif one in address.waiting:
            del address.waiting[one]
            self.waiting -= 1
        self._settle(key, address)

    def yielding(self, began_before: float) -> list[T]:
        """Give those under way whose places others wait for: the earliest, if they began before that, one for each address."""
        if len(self._under_way) < self._total:
            return []
        longest = islice(self._under_way.items(), len(self._turns))
        return [one for one, (_, began_at) in longest if began_at < began_before]

    def _settle(self, key: str, address: _Address[T]) -> None:
        """Put an address in turn, take it out, or forget it."""
        if address.waiting and address.under_way < address.limit:
            self._turns.setdefault(key)
        else:
            self._turns.pop(key, None)
            if not address.waiting and not address.under_way:
                del self._addresses[key]
