"""A heap whose items may change their rank or leave: what it holds of them before is passed over when it comes up.

`push`, `drop` and `first` are O(log n) amortised. At most half of what is stored is out of date, plus `SLACK` entries: the heap
is built anew when there is more. An entry is a tuple that ends with its item and is never equal in rank to another item's.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, Protocol, TypeVar

SLACK: Final = 32  # entries out of date that are not worth building a heap anew for


class Ranked(Protocol):
    """What can be in one heap at a time: it knows its entry, None outside."""

    entry: tuple[Any, ...] | None


T = TypeVar("T", bound=Ranked)


class LazyHeap(Generic[T]):
    """Items by rank, the least first."""

    __slots__ = ("_entries", "_live")

    def __init__(self) -> None:
        self._entries: list[tuple[Any, ...]] = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def push(self, item: T, entry: tuple[Any, ...]) -> None:
        """Put `item` in, or give it another rank."""
        if item.entry is None:
            self._live += 1
        item.entry = entry
        heappush(self._entries, entry)
        self._tidy()

    def drop(self, item: T) -> None:
        """Take `item` out."""
        item.entry = None
        self._live -= 1
        self._tidy()

    def first(self) -> T | None:
        """Give the item of least rank, and leave it in."""
        entries = self._entries
        while entries:
            entry = entries[0]
            item: T = entry[-1]
            if item.entry is entry:
                return item
            heappop(entries)
        return None

    def _tidy(self) -> None:
        if len(self._entries) > 2 * self._live + SLACK:
            self._entries = [entry for entry in self._entries if entry[-1].entry is entry]
            heapify(self._entries)
