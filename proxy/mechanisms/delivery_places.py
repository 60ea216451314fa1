"""Places for what is under way to destinations that others choose, so that slow ones cannot take them all. Pure.

Under way is a delivery without an answer. Limits, each with its default:

    in all           128, of which destinations that have not answered last (new or failing) hold 96 together
    a destination    64, 8 after a failure, and beyond its first it must hold fewer than are free
    an address       64 over all destinations behind it; after a failure there, 8 for those that did not answer last

The rule of the free ones keeps a few greedy destinations from closing the line: k of them leave 128 / 2^k. Who finds no
place waits; a freed place goes to the destination with least under way, then to who waits longest. Waiting ones are at most
`max_waiting`; the caller ends waits. O(destinations waiting) a call, and only while somebody waits.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

_MAX_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """See the module."""

    in_all: int = 128
    unproven: int = 96
    per_key: int = 64
    per_address: int = 64
    after_failure: int = 8
    max_waiting: int = 1024


class Place:
    """One delivery's: asked for, granted or given up once, and given back once."""

    __slots__ = ("address", "granted", "key", "unproven")

    def __init__(self, key: str, address: str) -> None:
        self.key = key
        self.address = address
        self.granted = False
        self.unproven = False


class DeliveryPlaces:
    """All places; who is told of a grant is the caller's, by the places that methods return."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.in_use = 0
        self.waiting = 0
        self._unproven = 0
        self._of_key: dict[str, int] = {}
        self._of_address: dict[str, int] = {}
        self._unproven_of_address: dict[str, int] = {}
        self._lines: OrderedDict[str, deque[Place]] = OrderedDict()
        self._answered: OrderedDict[str, bool] = OrderedDict()  # by key, what its last delivery was
        self._failing_addresses: OrderedDict[str, None] = OrderedDict()

    def ask(self, place: Place) -> bool | None:
        """Take a place: True at once, False when it waits, None when too many wait."""
        if place.key not in self._lines and self._fits(place):
            self._take(place)
            return True
        if self.waiting >= self.limits.max_waiting:
            return None
        self._lines.setdefault(place.key, deque()).append(place)
        self.waiting += 1
        return False

    def withdraw(self, place: Place) -> list[Place]:
        """Let a place wait no longer; give those granted now (the next in its line may fit where it did not)."""
        line = self._lines.get(place.key)
        if line is None or place not in line:
            return []
        line.remove(place)
        self._left_line(place.key)
        return self._grant()

    def give_back(self, place: Place) -> list[Place]:
        """End what held a place; give those granted now."""
        if not place.granted:
            return []
        place.granted = False
        self._count(place, -1)
        return self._grant()

    def move(self, place: Place, address: str) -> bool:
        """Book a place at the address it really went to; False where that one is full: give it back then."""
        if address != place.address:
            self._count(place, -1)
            place.address = address
            fits = self._address_fits(place)
            self._count(place, 1)
            return fits
        return True

    def note(self, key: str, address: str | None, *, answered: bool) -> list[Place]:
        """Hear how a delivery ended; give those granted now that a limit has risen."""
        self._answered[key] = answered
        self._answered.move_to_end(key)
        if address is not None:
            if answered:
                self._failing_addresses.pop(address, None)
            else:
                self._failing_addresses[address] = None
                self._failing_addresses.move_to_end(address)
        for known in (self._answered, self._failing_addresses):
            if len(known) > _MAX_REMEMBERED:
                known.popitem(last=False)
        return self._grant() if answered else []

    # Rules and books.

    def _fits(self, place: Place) -> bool:
        limits = self.limits
        free = limits.in_all - self.in_use
        held = self._of_key.get(place.key, 0)
        most = limits.after_failure if self._answered.get(place.key) is False else limits.per_key
        if free <= 0 or held >= most or (held and held >= free):
            return False
        if not self._answered.get(place.key) and self._unproven >= limits.unproven:
            return False
        return self._address_fits(place)

    def _address_fits(self, place: Place) -> bool:
        if self._of_address.get(place.address, 0) >= self.limits.per_address:
            return False
        if self._answered.get(place.key) or place.address not in self._failing_addresses:
            return True
        return self._unproven_of_address.get(place.address, 0) < self.limits.after_failure

    def _take(self, place: Place) -> None:
        place.granted = True
        place.unproven = not self._answered.get(place.key)
        self._count(place, 1)

    def _count(self, place: Place, by: int) -> None:
        self.in_use += by
        _add(self._of_key, place.key, by)
        _add(self._of_address, place.address, by)
        if place.unproven:
            self._unproven += by
            _add(self._unproven_of_address, place.address, by)

    def _grant(self) -> list[Place]:
        granted: list[Place] = []
        while self._lines and self.in_use < self.limits.in_all:
            place = self._next()
            if place is None:
                break
            self._lines[place.key].popleft()
            self._left_line(place.key)
            self._take(place)
            granted.append(place)
        return granted

    def _next(self) -> Place | None:
        """Give who is granted next: of those that fit, the one whose destination has least under way, the oldest line first."""
        best: Place | None = None
        least = self.limits.in_all + 1
        for key, line in self._lines.items():
            held = self._of_key.get(key, 0)
            if held < least and self._fits(line[0]):
                best, least = line[0], held
        return best

    def _left_line(self, key: str) -> None:
        self.waiting -= 1
        if not self._lines[key]:
            del self._lines[key]


def _add(counts: dict[str, int], key: str, by: int) -> None:
    number = counts.get(key, 0) + by
    if number:
        counts[key] = number
    else:
        del counts[key]
