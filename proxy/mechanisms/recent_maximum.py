"""The greatest of what was seen lately, in constant memory.

The span is cut into slots; `value` is the maximum over the present slot and the full ones before it: it looks back at least
`span_s` and at most one slot further. Writers on a hot path compare with `latest` and assign to it. Pure.
"""

from typing import Final

SLOTS: Final = 12  # of an hour: five minutes each


class RecentMaximum:
    """A maximum over the last `span_s` seconds; 0 where nothing was seen."""

    __slots__ = ("_before", "_slot_s", "_turned_at", "latest")

    def __init__(self, span_s: float, now: float) -> None:
        self.latest = 0.0
        self._before = [0.0] * SLOTS
        self._slot_s = span_s / SLOTS
        self._turned_at = now

    def value(self, now: float) -> float:
        """Give the maximum, and open a new slot if it is time."""
        passed = int((now - self._turned_at) / self._slot_s)
        if passed > 0:
            # What was written since belongs to the slot that just ended: nobody looked in between.
            self._before = (
                [*self._before, self.latest, *[0.0] * (passed - 1)][-SLOTS:]
                if passed <= SLOTS
                else [0.0] * SLOTS
            )
            if passed > SLOTS:
                self._before[-1] = self.latest
            self.latest = 0.0
            self._turned_at += passed * self._slot_s
        return max(self.latest, *self._before)
