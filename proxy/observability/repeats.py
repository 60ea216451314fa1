"""Which of many equal events get a line of their own: the first few of each, the rest as one line a minute. Pure.

In a period of `PERIOD_S` a key may tell `EACH` times, and all keys together `ALL` times; what is beyond is counted, by key
for at most `KEYS` of them. Memory and lines are bounded whatever comes: at most ALL lines of their own and KEYS + 1 sums.
"""

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

PERIOD_S: Final = 60.0
EACH: Final = 5
ALL: Final = 1000
KEYS: Final = 200


class Told(NamedTuple):
    """What was not told by itself: how often a key came; key None stands for all that were too many to be named."""

    key: Any
    times: int


class Repeats:
    """See the module. `now` in monotonic seconds; `due` must be called a few times a minute."""

    __slots__ = ("_beyond", "_ends_at", "_seen", "_suppressed", "_told")

    def __init__(self, now: float) -> None:
        self._ends_at = now + PERIOD_S
        self._seen: dict[Hashable, int] = {}
        self._suppressed: dict[Hashable, int] = {}
        self._told = 0
        self._beyond = 0

    def may_tell(self, key: Hashable) -> bool:
        """Tell whether this one gets a line; else it is counted."""
        seen = self._seen.get(key, 0)
        if seen < EACH and self._told < ALL:
            self._seen[key] = seen + 1
            self._told += 1
            return True
        if key in self._suppressed or len(self._suppressed) < KEYS:
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
        else:
            self._beyond += 1
        return False

    def due(self, now: float) -> list[Told]:
        """Give the sums of a period that is over, most frequent first."""
        if now < self._ends_at:
            return []
        self._ends_at = now + PERIOD_S
        self._seen.clear()
        self._told = 0
        sums = sorted((Told(key, times) for key, times in self._suppressed.items()), key=_by_times)
        if self._beyond:
            sums.append(Told(None, self._beyond))
        self._suppressed.clear()
        self._beyond = 0
        return sums


def _by_times(told: Told) -> int:
    return -told.times
