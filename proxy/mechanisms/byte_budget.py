"""How many bytes may be held in all, by one flow, by one address, and by all unconfirmed flows together (behaviour.md §3.1).

A budget is a sum and up to three kinds of partial sums, each with its limit. A lease takes bytes only if every limit that
applies to it still holds afterwards, or takes nothing. Model: with T(x) the bytes taken by the live leases of x,
`T(all) ≤ total`, `T(flow) ≤ flow_bytes` for each flow, `T(address) ≤ address_bytes` for each address,
`T(unconfirmed) ≤ unconfirmed_bytes`. Every call is O(1); a flow or address is remembered only while it holds bytes. Pure.
What to do when bytes are refused is the caller's: pause, spool, or stream.
"""

from collections.abc import Hashable
from dataclasses import dataclass


class ByteLease:
    """What one body holds. `flow` or `address` None: that limit does not apply to it (exemptions, appservices)."""

    __slots__ = ("address", "confirmed", "ended", "flow", "taken")

    def __init__(self, flow: Hashable | None, address: Hashable | None, *, confirmed: bool) -> None:
        self.flow = flow
        self.address = address
        self.confirmed = confirmed
        self.taken = 0
        self.ended = False


@dataclass(frozen=True, slots=True)
class ByteBudgetStatistics:
    """A budget's figures, in bytes; `flows` and `addresses` are how many hold some of it."""

    total_bytes: int
    taken_bytes: int
    unconfirmed_bytes: int
    flows: int
    addresses: int
    refused_total: int


class ByteBudget:
    """See the module. A limit of None is not kept, and costs nothing."""

    def __init__(
        self, total_bytes: int, *, flow_bytes: int | None = None, address_bytes: int | None = None,
        unconfirmed_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.total_bytes = total_bytes
        self.taken = 0
        self.refused_total = 0
        self._flow_bytes = flow_bytes
        self._address_bytes = address_bytes
        self._unconfirmed_bytes = unconfirmed_bytes
        self._unconfirmed = 0
        self._flows: dict[Hashable, int] = {}
        self._addresses: dict[Hashable, int] = {}

    @property
    def over_half(self) -> bool:
        """Whether more than half of the total is taken: then bodies have to come faster (§3.2)."""
        return self.taken * 2 > self.total_bytes

    @property
    def used_part(self) -> float:
        """How much of the total is taken; 1 of a budget of nothing."""
        return self.taken / self.total_bytes if self.total_bytes else 1.0

    def take(self, lease: ByteLease, size: int) -> bool:
        """Charge `size` bytes to a lease; False, and nothing is charged, where a limit would be passed.

        Raises:
            ValueError: if the lease has ended.
        """
        if lease.ended:
            raise ValueError("a lease that has ended takes nothing")
        if self._fits(lease, size):
            self._book(lease, size)
            return True
        self.refused_total += 1
        return False

    def give_back(self, lease: ByteLease, size: int) -> None:
        """Take back some of what a lease holds.

        Raises:
            ValueError: if it does not hold as much.
        """
        if size > lease.taken:
            raise ValueError(f"{size} bytes given back of {lease.taken} taken")
        self._book(lease, -size)

    def end(self, lease: ByteLease) -> None:
        """Take back all that a lease holds; ending it twice is harmless."""
        if not lease.ended:
            self._book(lease, -lease.taken)
            lease.ended = True

    def statistics(self) -> ByteBudgetStatistics:
        """Give the budget's figures."""
        return ByteBudgetStatistics(
            total_bytes=self.total_bytes,
            taken_bytes=self.taken,
            unconfirmed_bytes=self._unconfirmed,
            flows=len(self._flows),
            addresses=len(self._addresses),
            refused_total=self.refused_total,
        )

    def by_flow(self) -> dict[Hashable, int]:
        """Give the bytes that each flow holds; O(flows), for those who look."""
        return self._flows.copy()

    def _fits(self, lease: ByteLease, size: int) -> bool:
        if self.taken + size > self.total_bytes:
            return False
        limit = self._flow_bytes
        if limit is not None and lease.flow is not None and self._flows.get(lease.flow, 0) + size > limit:
            return False
        limit = self._address_bytes
        if (
            limit is not None
            and lease.address is not None
            and self._addresses.get(lease.address, 0) + size > limit
        ):
            return False
        limit = self._unconfirmed_bytes
        return limit is None or lease.confirmed or self._unconfirmed + size <= limit

    def _book(self, lease: ByteLease, size: int) -> None:
        lease.taken += size
        self.taken += size
        if not lease.confirmed:
            self._unconfirmed += size
        if self._flow_bytes is not None and lease.flow is not None:
            _add(self._flows, lease.flow, size)
        if self._address_bytes is not None and lease.address is not None:
            _add(self._addresses, lease.address, size)


def _add(sums: dict[Hashable, int], key: Hashable, size: int) -> None:
    total = sums.get(key, 0) + size
    if total:
        sums[key] = total
    else:
        sums.pop(key, None)
