"""Who did something most often, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005). Pure.

With room for m names and n events so far, whoever did more than n / m of them is in the book, and a count is too high by at
most `error`, which is never more than n / m. A name that was not known takes the place and the count of the least.
"""

from heapq import heappop, heappush, nlargest
from typing import NamedTuple


class Hitter(NamedTuple):
    """One name; its true count lies between `times - error` and `times`."""

    name: str
    times: int
    error: int


class HeavyHitters:
    """A book with `room` names. `add` is O(1) for names in the book, O(log room) amortised for others."""

    __slots__ = ("_counts", "_errors", "_heap", "_room")

    def __init__(self, room: int) -> None:
        self._room = room
        self._counts: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        #: One entry a name, with a count of some time ago: never more than now.
        self._heap: list[tuple[int, str]] = []

    def add(self, name: str) -> None:
        """Count one more event of this name."""
        counts = self._counts
        count = counts.get(name)
        if count is not None:
            counts[name] = count + 1
            return
        error = 0
        if len(counts) >= self._room:
            error, least = self._take_least()
            del counts[least], self._errors[least]
        counts[name] = error + 1
        self._errors[name] = error
        heappush(self._heap, (error + 1, name))

    def top(self, most: int) -> list[Hitter]:
        """Give the names with the highest counts."""
        top = nlargest(most, self._counts.items(), key=lambda item: item[1])
        return [Hitter(name, count, self._errors[name]) for name, count in top]

    def _take_least(self) -> tuple[int, str]:
        while True:
            count, name = heappop(self._heap)
            now = self._counts[name]
            if now == count:
                return count, name
            heappush(self._heap, (now, name))
