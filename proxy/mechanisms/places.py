"""Who has which place of a limited number: active ones, and held ones whose work goes on though nobody waits for it.

Each is charged to a party until it is freed, once. How many there may be is the caller's; the books hold for any number:
places = active + held = the sum over the parties. O(1) a call.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)  # who is charged
T = TypeVar("T", bound=Hashable)  # what has a place


class Places(Generic[P, T]):
    """The books: what is active, what is held in the order of holding, and how many places each party has."""

    __slots__ = ("_active", "_held", "_of_party")

    def __init__(self) -> None:
        self._active: dict[T, P] = {}
        self._held: dict[T, P] = {}
        self._of_party: dict[P, int] = {}

    def __len__(self) -> int:
        return len(self._active) + len(self._held)

    @property
    def held(self) -> int:
        """How many are held."""
        return len(self._held)

    @property
    def active(self) -> int:
        """How many are active."""
        return len(self._active)

    def active_items(self) -> Iterator[T]:
        """Give what is active, the first taken first."""
        return iter(self._active)

    def held_longest(self) -> T | None:
        """Give what was held first."""
        return next(iter(self._held), None)

    def of(self, party: P) -> int:
        """Give how many places are charged to a party."""
        return self._of_party.get(party, 0)

    def take(self, item: T, party: P) -> None:
        """Book a place; `item` has none yet."""
        self._active[item] = party
        self._of_party[party] = self._of_party.get(party, 0) + 1

    def hold(self, item: T, party: P) -> None:
        """Go on with a place as a held one; what had none gets one, what is held stays so."""
        if item in self._held:
            return
        if self._active.pop(item, None) is None:
            self._of_party[party] = self._of_party.get(party, 0) + 1
        self._held[item] = party

    def free(self, item: T) -> bool:
        """Give a place back; tell whether there was one."""
        party = self._active.pop(item, None)
        if party is None:
            party = self._held.pop(item, None)
            if party is None:
                return False
        left = self._of_party[party] - 1
        if left:
            self._of_party[party] = left
        else:
            del self._of_party[party]
        return True
