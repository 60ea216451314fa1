"""What a fair outcome would be: max-min fair worker-seconds a second, by water filling.

With a water level L each account gets min(what it asks, its cap, L), and the accounts of one address together at most
L * min(8, accounts) and the address's cap. The level is the highest at which all that is given fits into the workers. Nobody
can then get more without somebody who has less losing. This shares no code with what it judges. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """What one account asks for from one address, in workers: infinite if it always has more to send than it gets."""

    account: str
    address: str
    workers: float


def allocation(demands: Sequence[Demand], workers: int, cap: float, address_cap: float) -> dict[str, float]:
    """Give each account's fair share in workers."""
    low, high = 0.0, float(workers)
    if sum(_at_level(demands, high, cap, address_cap).values()) <= workers:
        return _at_level(demands, high, cap, address_cap)
    for _ in range(60):  # halving a range of at most 4,096 workers down to rounding
        middle = (low + high) / 2
        if sum(_at_level(demands, middle, cap, address_cap).values()) > workers:
            high = middle
        else:
            low = middle
    return _at_level(demands, low, cap, address_cap)


def _at_level(demands: Sequence[Demand], level: float, cap: float, address_cap: float) -> dict[str, float]:
    by_address: dict[str, list[Demand]] = {}
    for demand in demands:
        by_address.setdefault(demand.address, []).append(demand)
    given: dict[str, float] = {}
    for neighbours in by_address.values():
        room = min(address_cap, level * min(8, len(neighbours)))
        # Within an address the same again: the least first, each at most an even part of what is left.
        wants = sorted(neighbours, key=lambda demand: min(demand.workers, cap, level))
        for position, demand in enumerate(wants):
            part = min(demand.workers, cap, level, room / (len(wants) - position))
            given[demand.account] = given.get(demand.account, 0.0) + part
            room -= part
    return given
