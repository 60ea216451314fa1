"""A distribution of waits in constant memory: how many, the greatest, and quantiles that are at most 0.5 % too high. Pure."""

from math import ceil, exp, log
from typing import Final

LEAST_S: Final = 1e-6  # shorter waits count as none
STEP: Final = log(1.005)  # between two buckets: under 6,000 of them up to a year


class Waits:
    """Waits in seconds."""

    __slots__ = ("_buckets", "count", "longest_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.longest_s = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, wait_s: float) -> None:
        """Count one more."""
        self.count += 1
        self.total_s += wait_s
        self.longest_s = max(self.longest_s, wait_s)
        bucket = 0 if wait_s <= LEAST_S else ceil(log(wait_s / LEAST_S) / STEP)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    @property
    def quick(self) -> int:
        """How many did not wait."""
        return self._buckets.get(0, 0)

    def merge(self, other: "Waits") -> None:
        """Count all of another distribution too."""
        self.count += other.count
        self.total_s += other.total_s
        self.longest_s = max(self.longest_s, other.longest_s)
        for bucket, count in other._buckets.items():  # noqa: SLF001 - of the same class
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def quantile_s(self, fraction: float) -> float:
        """Give the wait that `fraction` of all do not exceed; 0 where there are none."""
        wanted = fraction * self.count
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(self.longest_s, LEAST_S * exp(bucket * STEP)) if bucket else 0.0
        return self.longest_s
