"""What an attack or a crowd got: a count by status, the times of its answers, and how many of it have begun."""

import asyncio
from collections import Counter

_KEPT = 20_000  # times; a crowd here has fewer answers


class Tally:
    """Counts since the last `report`."""

    def __init__(self) -> None:
        self.began_all = asyncio.Event()
        self._counts: Counter[str] = Counter()
        self._ms: list[float] = []
        self._expected = 0
        self._began = 0

    def expect(self, number: int) -> None:
        """Say how many will begin."""
        self._expected = number

    def began(self) -> None:
        """One more has begun, or begun again."""
        self._began += 1
        if self._began == self._expected:
            self.began_all.set()

    def add(self, outcome: str, took_s: float | None = None) -> None:
        """Count an outcome, and how long it took where that is of interest."""
        self._counts[outcome] += 1
        if took_s is not None and len(self._ms) < _KEPT:
            self._ms.append(round(took_s * 1e3, 2))

    def report(self) -> dict[str, object]:
        """Give what was counted, and count anew."""
        counts, ms = dict(self._counts), self._ms
        self._counts, self._ms = Counter(), []
        return {"began": self._began, "outcomes": counts, "ms": ms}
