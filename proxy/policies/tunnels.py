"""Websocket tunnels at once: so many of an account, so many of an address, so many in all (behaviour.md §1.6, ADR 24).

A permit is taken before the upgrade is forwarded, since a tunnel lasts, and given back when the tunnel closes or the upgrade
failed. Memory is bounded by permits; every call is O(1).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum


class TunnelVerdict(IntEnum):
    """What is to be done; a refusal names the budget. Names in lower case are the reasons."""

    ADMIT = 0
    TUNNELS_ACCOUNT = 1
    TUNNELS_ADDRESS = 2
    TUNNELS_TOTAL = 3


_ADMIT, _ACCOUNT, _ADDRESS, _TOTAL = TunnelVerdict


class TunnelPermit:
    """One tunnel's right to be. A None for account or address: that limit does not hold for it."""

    __slots__ = ("account", "address", "held")

    def __init__(self, account: Hashable | None, address: Hashable | None) -> None:
        self.account = account
        self.address = address
        self.held = False


@dataclass(frozen=True, slots=True)
class TunnelStatistics:
    """A picture of the tunnels; `verdicts` by TunnelVerdict, since the start."""

    open: int
    accounts: int
    addresses: int
    verdicts: tuple[int, ...]


@dataclass(slots=True)
class Tunnels:
    """The tunnels there are; all limits can be changed at any time. `total` holds for everybody, exempt or not."""

    per_account: int
    per_address: int
    total: int
    _open: int = 0
    _of_account: dict[Hashable, int] = field(default_factory=dict)
    _of_address: dict[Hashable, int] = field(default_factory=dict)
    _verdicts: list[int] = field(default_factory=lambda: [0] * len(TunnelVerdict))

    def ask(self, permit: TunnelPermit) -> TunnelVerdict:
        """Admit or refuse a tunnel."""
        verdict = _ADMIT
        if self._open >= self.total:
            verdict = _TOTAL
        elif permit.account is not None and self._of_account.get(permit.account, 0) >= self.per_account:
            verdict = _ACCOUNT
        elif permit.address is not None and self._of_address.get(permit.address, 0) >= self.per_address:
            verdict = _ADDRESS
        else:
            self._book(permit, 1)
        self._verdicts[verdict] += 1
        return verdict

    def take(self, permit: TunnelPermit) -> None:
        """Let one be that `ask` refused for its account or address: it counts all the same."""
        self._book(permit, 1)

    def end(self, permit: TunnelPermit) -> None:
        """Give a permit back; without effect where it was not admitted, or is back already."""
        if permit.held:
            self._book(permit, -1)

    def statistics(self) -> TunnelStatistics:
        """Give a picture of the tunnels."""
        return TunnelStatistics(
            self._open, len(self._of_account), len(self._of_address), tuple(self._verdicts)
        )

    def _book(self, permit: TunnelPermit, change: int) -> None:
        permit.held = change > 0
        self._open += change
        for book, key in ((self._of_account, permit.account), (self._of_address, permit.address)):
            if key is None:
                continue
            count = book.get(key, 0) + change
            if count:
                book[key] = count
            else:
                del book[key]
