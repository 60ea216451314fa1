"""What all stores of one direction share: the spool, the budgets and the counters (behaviour.md §3.1)."""

from dataclasses import dataclass
from typing import Final

from proxy.mechanisms.byte_budget import ByteBudget, ByteBudgetStatistics
from proxy.spool.spool import Spool

_FLOW_PART: Final = 4  # §3.1: a flow at most a quarter of a spool
_ADDRESS_PART: Final = 2
_UNCONFIRMED_PART: Final = 4
_MEMORY_ADDRESS_PART: Final = 4


def disk_budget(total_bytes: int) -> ByteBudget:
    """Give the budget of one direction's spool files."""
    return ByteBudget(
        total_bytes,
        flow_bytes=total_bytes // _FLOW_PART,
        address_bytes=total_bytes // _ADDRESS_PART,
        unconfirmed_bytes=total_bytes // _UNCONFIRMED_PART,
    )


def memory_budget(total_bytes: int) -> ByteBudget:
    """Give the budget of memory for buffers, one for both directions."""
    return ByteBudget(total_bytes, address_bytes=total_bytes // _MEMORY_ADDRESS_PART)


@dataclass(frozen=True, slots=True)
class StoresStatistics:
    """One direction's figures: stores there are, how many were ever spooled, and what is on disk."""

    open: int
    spooled_total: int
    disk: ByteBudgetStatistics


class BodyStores:
    """One direction. `memory_bytes` are kept of each body before anything is spooled; `disk` and `memory` as made above."""

    __slots__ = ("disk", "memory", "memory_bytes", "open", "spool", "spooled_total")

    def __init__(self, spool: Spool, *, memory: ByteBudget, disk: ByteBudget, memory_bytes: int) -> None:
        self.spool = spool
        self.memory = memory
        self.disk = disk
        self.memory_bytes = memory_bytes
        self.open = 0
        self.spooled_total = 0

    @property
    def used_part(self) -> float:
        """How much is taken of memory or of what files may be, whichever has more room: 1 if nothing more can be kept."""
        files = self.spool.open_files / self.spool.max_files if self.spool.max_files else 1.0
        return min(self.memory.used_part, max(self.disk.used_part, files))

    def statistics(self) -> StoresStatistics:
        """Give this direction's figures."""
        return StoresStatistics(self.open, self.spooled_total, self.disk.statistics())
