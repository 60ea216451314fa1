"""Lines of several parties that take turns: first in first out within a party, round robin between them.

A party that is served goes behind the others; one whose line is empty is forgotten, and comes back as the last. So a party
is passed by each other party at most once before its next turn, however many items these have in line. Adding, taking and
removing are O(1) in what waits, plus the parties passed over for having no room; the line of one party should be short.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)  # a party
T = TypeVar("T", bound=Hashable)  # what waits


class Turns(Generic[P, T]):
    """What waits, by party in the order of turns, and by age."""

    __slots__ = ("_by_age", "_lines")

    def __init__(self) -> None:
        self._lines: OrderedDict[P, deque[T]] = OrderedDict()
        self._by_age: OrderedDict[T, P] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_age)

    def __iter__(self) -> Iterator[T]:
        """From the oldest to the newest."""
        return iter(self._by_age)

    def parties(self) -> Iterator[P]:
        """Give the parties in the order of their turns."""
        return iter(self._lines)

    def of(self, party: P) -> int:
        """Give how many items of a party wait."""
        line = self._lines.get(party)
        return 0 if line is None else len(line)

    def oldest(self) -> T | None:
        """Give what waits longest, of whichever party."""
        return next(iter(self._by_age), None)

    def add(self, party: P, item: T) -> None:
        """Put an item at the end of its party's line."""
        self._by_age[item] = party
        line = self._lines.get(party)
        if line is None:
            self._lines[party] = deque((item,))
        else:
            line.append(item)

    def take(self, has_room: Callable[[T], bool] | None = None) -> T | None:
        """Take the next item out: the oldest of the first party in turn for whose oldest `has_room` holds; else None."""
        for party, line in self._lines.items():
            if has_room is not None and not has_room(line[0]):
                continue
            item = line.popleft()
            if line:
                self._lines.move_to_end(party)
            else:
                del self._lines[party]
            del self._by_age[item]
            return item
        return None

    def remove(self, item: T) -> bool:
        """Take an item out wherever it is; tell whether it still waited."""
        party = self._by_age.pop(item, None)
        if party is None:
            return False
        line = self._lines[party]
        line.remove(item)
        if not line:
            del self._lines[party]
        return True
