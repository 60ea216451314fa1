"""How long requests wait for a worker, and how long the homeserver takes: histograms by route class, fed on the hot path.

A duration falls into the first bucket whose bound is not less than it, as Prometheus has it. The hot path appends to a list;
a few times a second the list is sorted and counted as a whole, which costs a third of bisecting each by itself. Memory: what
ended within a quarter of a second, and two lists of `len(BOUNDS_S) + 1` integers for each class.

- wait: from asking for a worker to having one; 0 for most. Long polls that take no worker are not counted here.
- service: from sending to the end of the homeserver's answer, also where nobody waits for it any more. Long polls count with
  what they waited at the homeserver, tunnels do not count.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: Seconds. From a cached answer to the deadline of media and first syncs.
BOUNDS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0),
)


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` has one number for each bound and one for what is beyond; they are not cumulative."""

    counts: tuple[int, ...]
    total_s: float

    @property
    def count(self) -> int:
        """How many were seen."""
        return sum(self.counts)

    def quantile_s(self, fraction: float) -> float | None:
        """Give the bound that `fraction` of all do not exceed, infinity where that is beyond the last; None without any."""
        wanted, seen = fraction * self.count, 0
        if not self.count:
            return None
        for bound, count in zip(BOUNDS_S, self.counts, strict=False):
            seen += count
            if seen >= wanted:
                return bound
        return float("inf")


@dataclass(frozen=True, slots=True)
class DurationStatistics:
    """Both histograms by route class."""

    waits: Mapping[str, Histogram]
    services: Mapping[str, Histogram]


class Durations:
    """See the module. `classes` are the names of the route classes by their number.

    Writers append to `waits_s[route]` and `services_s[route]`; `settle` must follow a few times a second.
    """

    __slots__ = ("_classes", "_service_books", "_wait_books", "services_s", "waits_s")

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = tuple(classes)
        #: Not settled yet, by route class.
        self.waits_s: list[list[float]] = [[] for _ in self._classes]
        self.services_s: list[list[float]] = [[] for _ in self._classes]
        self._wait_books = [_Book() for _ in self._classes]
        self._service_books = [_Book() for _ in self._classes]

    def settle(self) -> None:
        """Move what was appended into the buckets."""
        for lately, books in ((self.waits_s, self._wait_books), (self.services_s, self._service_books)):
            for durations_s, book in zip(lately, books, strict=True):
                if durations_s:
                    book.add(durations_s)
                    durations_s.clear()

    def statistics(self) -> DurationStatistics:
        """Take a picture; O(buckets + what is not settled)."""
        self.settle()
        return DurationStatistics(
            dict(zip(self._classes, map(_Book.histogram, self._wait_books), strict=True)),
            dict(zip(self._classes, map(_Book.histogram, self._service_books), strict=True)),
        )


class _Book:
    """One histogram."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, durations_s: list[float]) -> None:
        """Count many at once; sorts them."""
        durations_s.sort()
        self.total_s += sum(durations_s)
        below = 0
        for index, bound in enumerate(BOUNDS_S):
            upto = bisect_right(durations_s, bound, below)
            self.counts[index] += upto - below
            below = upto
        self.counts[-1] += len(durations_s) - below

    def histogram(self) -> Histogram:
        return Histogram(tuple(self.counts), self.total_s)
