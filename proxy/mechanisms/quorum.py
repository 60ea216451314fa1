"""Whether two different parties said the same: what one alone may not bring about.

Remembers one party and whether another came since the last reset; it needs no more, so its size is constant.
"""

from collections.abc import Hashable


class Quorum:
    """`reached` once two different parties were noted."""

    __slots__ = ("_first", "reached")

    def __init__(self) -> None:
        self._first: Hashable | None = None
        self.reached = False

    def note(self, party: Hashable) -> bool:
        """Note a party, which is not None; tell whether there are two now."""
        if self._first is None:
            self._first = party
        elif not self.reached and party != self._first:
            self.reached = True
        return self.reached

    def reset(self) -> None:
        """Forget all."""
        self._first = None
        self.reached = False
