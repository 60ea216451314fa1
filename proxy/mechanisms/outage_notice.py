"""When it is told that something cannot be reached: at once, then once a minute while it lasts. Pure.

Something that comes and goes is told of once in `APART_S`, however often it does.
"""

from typing import Final

EVERY_S: Final = 60.0
APART_S: Final = 5.0


class OutageNotice:
    """One thing that can be reached or not. `now` in monotonic seconds."""

    __slots__ = ("_again_at", "_told_at")

    def __init__(self) -> None:
        self._told_at = self._again_at = float("-inf")

    def may_tell(self, now: float) -> bool:
        """It could not be reached: say whether this time is told."""
        if now < self._again_at:
            return False
        self._told_at = now
        self._again_at = now + EVERY_S
        return True

    def over(self) -> None:
        """It was reached: the next time that it cannot be is another outage."""
        self._again_at = self._told_at + APART_S
