"""The workers of the stand-in homeserver, and the line of requests that found none free.

Unfair on purpose: oldest first, whoever asks, as a server with threads takes connections. A request holds its worker from `ask`
until `give_back`. Figures are plain counts; `at_once` is what a proxy has let through: in service and in line.
"""

from collections import deque
from collections.abc import Callable


class WorkerPool:
    """`workers` places, None for no limit; every call O(1)."""

    __slots__ = ("_line", "asked", "busy", "most_at_once", "most_busy", "workers")

    def __init__(self, workers: int | None) -> None:
        self.workers = workers
        self.busy = 0
        self.asked = 0
        self.most_busy = 0
        self.most_at_once = 0
        self._line: deque[Callable[[], None]] = deque()

    @property
    def at_once(self) -> int:
        """Requests in service and in line."""
        return self.busy + len(self._line)

    def ask(self, start: Callable[[], None]) -> None:
        """Call `start` once a worker is free: now, or when the line before it is gone."""
        self.asked += 1
        if self.workers is not None and self.busy >= self.workers:
            self._line.append(start)
            self.most_at_once = max(self.most_at_once, self.at_once)
        else:
            self._occupy()
            start()

    def give_back(self) -> None:
        """End a request: its worker takes the oldest in line."""
        self.busy -= 1
        if self._line:
            start = self._line.popleft()
            self._occupy()
            start()

    def forget_most(self) -> None:
        """Let the figures count from here on."""
        self.asked = 0
        self.most_busy = self.busy
        self.most_at_once = self.at_once

    def figures(self) -> dict[str, int]:
        """Give what was counted."""
        return {
            "asked": self.asked,
            "at_once": self.at_once,
            "most_busy": self.most_busy,
            "most_at_once": self.most_at_once,
        }

    def _occupy(self) -> None:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        self.most_at_once = max(self.most_at_once, self.at_once)


class Counted:
    """Some of a pool's requests, counted for themselves as well: they take its workers like all others."""

    __slots__ = ("_pool", "asked", "at_once", "most_at_once")

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0

    def ask(self, start: Callable[[], None]) -> None:
        """Ask the pool for a worker."""
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self._pool.ask(start)

    def give_back(self) -> None:
        """Give it back."""
        self.at_once -= 1
        self._pool.give_back()

    def forget_most(self) -> None:
        """Let the figures count from here on."""
        self.asked = 0
        self.most_at_once = self.at_once

    def figures(self) -> dict[str, int]:
        """Give what was counted."""
        return {"asked": self.asked, "at_once": self.at_once, "most_at_once": self.most_at_once}
