"""How many bodies of unconfirmed clients may hold a worker while they come (behaviour.md §3.1, ADR 20).

A body that can be kept no longer is streamed: it holds a worker that waits for its client. Among accounts that is fair, as
any work. But who has no account is a flow by address, and addresses cost an attacker nothing: so bodies that nobody vouches
for share a quarter of the workers, 1 at least. A lane with a guaranteed part (federation) has that for its own, since its
peers have no tokens and must not lose to clients without one.

Counted by lane, so that figures and lanes may change while bodies are on their way. Pure.
"""

from collections.abc import Sequence
from typing import Final

from proxy.policies.worker_pool import PoolRule

_PART: Final = 4


class StreamedBodies:
    """Places for bodies of unconfirmed clients; a lane is known by its place in the rules, over all pools."""

    def __init__(self, pools: Sequence[PoolRule]) -> None:
        self._streaming = [0] * sum(len(pool.lanes) for pool in pools)
        self.resize(pools)

    @property
    def streaming(self) -> int:
        """How many there are now."""
        return sum(self._streaming)

    def resize(self, pools: Sequence[PoolRule]) -> None:
        """Take other figures, or other pools of the same lanes."""
        # By lane: the lanes that share places with it, and how many places.
        self._groups: list[tuple[list[int], int]] = []
        lane = 0
        for pool in pools:
            shared: list[int] = []
            for rule in pool.lanes:
                if rule.guaranteed:
                    self._groups.append(([lane], rule.guaranteed))
                else:
                    shared.append(lane)
                    self._groups.append((shared, max(1, pool.workers // _PART)))
                lane += 1

    def take(self, lane: int) -> bool:
        """Take a place, if one is free; it is to be given back."""
        group, places = self._groups[lane]
        if sum(self._streaming[number] for number in group) >= places:
            return False
        self._streaming[lane] += 1
        return True

    def give_back(self, lane: int) -> None:
        """Give a place back."""
        if not self._streaming[lane]:
            raise RuntimeError(f"no body streams in lane {lane}")
        self._streaming[lane] -= 1
