"""How many at a time: a limit that success raises by one and failure halves (additive increase, multiplicative decrease).

`limit` starts at `initial`, rises by 1 after `grow_after` fast successes since it last changed, and never leaves 0..`maximum`.
A failure halves it, rounding down. One burst counts once: every cut begins an era, and what started in an earlier era
neither cuts nor grows, the rule TCP applies per round trip. Independent limits before one server thereby come to equal shares
without knowing of each other. What the limit is of, and which outcomes are failures, is the caller's. O(1) a call.
"""


class AimdLimit:
    """The limit, and the era that outcomes have to be of to count. `era_began_at` is in monotonic seconds."""

    __slots__ = ("era", "era_began_at", "fast_successes", "grow_after", "limit", "maximum")

    def __init__(self, initial: int, maximum: int, grow_after: int, now: float) -> None:
        self.limit = initial
        self.maximum = maximum
        self.grow_after = grow_after
        self.fast_successes = 0
        self.era = 0
        self.era_began_at = now

    def succeeded_fast(self, era: int) -> bool:
        """Count a fast success of what started in `era`; tell whether the limit grew."""
        if era != self.era or self.limit >= self.maximum:
            return False
        self.fast_successes += 1
        if self.fast_successes < self.grow_after:
            return False
        self.limit += 1
        self.fast_successes = 0
        return True

    def failed(self, era: int, now: float, floor: int = 0) -> bool:
        """Halve the limit, not below `floor`, for what started in `era`; tell whether it changed."""
        lower = max(self.limit // 2, floor)
        if era != self.era or lower >= self.limit:
            return False
        self.begin_era(lower, now)
        return True

    def era_of(self, started_at: float) -> int:
        """Give the era of what started then: the present one or, as far as anybody here cares, an earlier one."""
        return self.era if started_at > self.era_began_at else self.era - 1

    def begin_era(self, limit: int, now: float) -> None:
        """Set the limit; what started before changes nothing any more."""
        self.limit = limit
        self.fast_successes = 0
        self.era += 1
        self.era_began_at = now

    def bound(self, maximum: int) -> bool:
        """Set another maximum; tell whether the limit had to come down to it."""
        self.maximum = maximum
        if self.limit <= maximum:
            return False
        self.limit = maximum
        self.fast_successes = 0
        return True
