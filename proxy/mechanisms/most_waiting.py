"""Who has most: counts by key, every call O(1).

Keys with equal counts are kept together; since counts move by one, the greatest is found again without a search. Pure.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class MostWaiting(Generic[K]):
    """How many each key has, and which has most."""

    __slots__ = ("_counts", "_most", "_with_count")

    def __init__(self) -> None:
        self._counts: dict[K, int] = {}
        self._with_count: dict[int, dict[K, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, key: K) -> int:
        """Give how many `key` has."""
        return self._counts.get(key, 0)

    def add(self, key: K) -> None:
        """Give `key` one more."""
        self._move(key, self.count(key), 1)
        self._most = max(self._most, self._counts[key])

    def take(self, key: K) -> None:
        """Give `key` one less; it must have one."""
        before = self._counts[key]
        self._move(key, before, -1)
        if before == self._most and before not in self._with_count:
            self._most -= 1

    def most(self) -> tuple[K | None, int]:
        """Give one of the keys that have most, the one that reached it last, and how many that is."""
        if not self._most:
            return None, 0
        return next(reversed(self._with_count[self._most])), self._most

    def _move(self, key: K, before: int, step: int) -> None:
        if before:
            peers = self._with_count[before]
            del peers[key]
            if not peers:
                del self._with_count[before]
        after = before + step
        if after:
            self._counts[key] = after
            self._with_count.setdefault(after, {})[key] = None
        else:
            del self._counts[key]
