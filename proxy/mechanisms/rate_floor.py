"""The least speed at which a peer has to move a body, our own pauses left out (behaviour.md §3.2, §3.5).

Model: nothing is required during the grace; after it the requirement grows by `rate` bytes for every second that is not
paused, and `moved < required` is too slow. With one rate throughout that is `moved >= rate * (elapsed - grace)`. A switch of
the rate changes how the requirement grows from then on, never what it already is: a peer that was fast enough is not cut by
the switch itself. A grace belongs to the beginning: a later switch gives no second one. So no sequence of switches and pauses
asks more than the highest rate would, or less than the lowest.

What a peer moved faster than it had to is its lead, and a lead alone would let it stand still for hours. So beside the rate
there may be a longest stall: seconds, pauses left out, in which nothing at all is moved. `moved`, called at times, sees it.

Every call is O(1), without allocation; the deadline is a sum of two numbers, for the sweep. Pure.
"""

from typing import Final

_NEVER: Final = float("inf")  # `http1.deadlines` has the same, which is not below this package
_ROUNDING_S: Final = 0.001  # sums of instants are not exact; nobody is cut for that


class RateFloor:
    """One body's floor, from `now` on. `rate_per_s` in bytes per second, `grace_s` in seconds without a requirement."""

    __slots__ = (
        "_began_at",
        "_moved_at",
        "_origin_at",
        "_paused_at",
        "_rate_per_s",
        "max_stall_s",
        "moved_bytes",
    )

    def __init__(self, rate_per_s: float, grace_s: float, now: float, *, max_stall_s: float = _NEVER) -> None:
        self.moved_bytes = 0
        self.max_stall_s = max_stall_s
        self._moved_at = now
        self._rate_per_s = rate_per_s
        # Both move forward with every pause: required = rate * (now - origin).
        self._began_at = now
        self._origin_at = now + grace_s
        self._paused_at = _NEVER

    def count(self, size: int) -> None:
        """Book bytes that the peer moved, also during a pause."""
        self.moved_bytes += size

    def moved(self, total_bytes: int, now: float) -> None:
        """Book how much was moved in all by now."""
        if total_bytes != self.moved_bytes:
            self.moved_bytes = total_bytes
            self._moved_at = now

    @property
    def paused(self) -> bool:
        """Whether time does not count at present."""
        return self._paused_at != _NEVER

    def pause(self, now: float) -> None:
        """We stop reading, or nothing waits for the peer: time does not count. Harmless if paused already."""
        if self._paused_at == _NEVER:
            self._paused_at = now

    def go_on(self, now: float) -> None:
        """Time counts again. Harmless if it does."""
        if self._paused_at != _NEVER:
            pause_s = now - self._paused_at
            self._began_at += pause_s
            self._origin_at += pause_s
            self._moved_at += pause_s
            self._paused_at = _NEVER

    def set_paused(self, paused: bool, now: float) -> None:  # noqa: FBT001  (it is what a caller's own flag is)
        """Pause or go on."""
        if paused:
            self.pause(now)
        else:
            self.go_on(now)

    def switch(self, rate_per_s: float, grace_s: float, now: float) -> None:
        """Require another rate from now on; `grace_s` counts from the beginning and only while nothing was required yet."""
        at = min(now, self._paused_at)
        required = self._rate_per_s * (at - self._origin_at)
        if required > 0:
            self._origin_at = at - required / rate_per_s
        else:
            self._origin_at = max(self._began_at + grace_s, at)
        self._rate_per_s = rate_per_s

    def deadline(self) -> float:
        """Give the instant after which the peer is too slow if nothing more is moved; infinity while paused."""
        if self._paused_at != _NEVER:
            return _NEVER
        return self._origin_at + self.moved_bytes / self._rate_per_s

    def too_slow(self, now: float) -> bool:
        """Tell whether less was moved than required, or nothing for too long; never while paused."""
        if self._paused_at != _NEVER:
            return False
        return now > self.deadline() + _ROUNDING_S or now - self._moved_at > self.max_stall_s
