"""What goes in and out of the budgets of waits: permits, verdicts and statistics. Values only; `sync_wait` decides."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from proxy.http1.deadlines import NEVER

Owner = TypeVar("Owner")


class WaitVerdict(IntEnum):
    """What is to be done; a refusal names the budget that was spent. Names in lower case are the reasons."""

    ADMIT = 0
    PARK = 1
    SYNC_DEVICE = 2
    SYNC_ACCOUNT = 3
    SYNC_TOTAL = 4


class WaitState(IntEnum):
    """What a permit is; every call is without effect on what is DONE."""

    NEW = 0
    PARKED = 1
    LIVE = 2
    GHOST = 3
    OUTSIDE = 4  # runs although it would have been refused (report mode): in no books
    DONE = 5


_ADMIT, _NEW = WaitVerdict.ADMIT, WaitState.NEW
#: When to ask again after a refusal, in seconds: a place of one's own device or account comes free sooner than one for all.
RETRY_AFTER_S: Final = {
    WaitVerdict.SYNC_DEVICE: 2.0,
    WaitVerdict.SYNC_ACCOUNT: 5.0,
    WaitVerdict.SYNC_TOTAL: 10.0,
}


class WaitPermit(Generic[Owner]):
    """One long poll's right to wait. The policy writes the fields after `owner`; instants are monotonic seconds.

    `account` is who is charged: the confirmed account, else the client key. `device` is None where none is confirmed, `address`
    where the rules by address do not hold. `timeout_s` is what the homeserver was told to wait, the ceiling where it is
    unknown. `exempt` lifts all but the budget in all.
    """

    __slots__ = (
        "account",
        "address",
        "admitted_at",
        "deadline_at",
        "device",
        "exempt",
        "owner",
        "state",
        "timeout_s",
        "verdict",
    )

    def __init__(
        self,
        account: Hashable,
        device: Hashable | None,
        address: Hashable | None,
        timeout_s: float,
        owner: Owner,
        *,
        exempt: bool = False,
    ) -> None:
        self.account = account
        self.device = device
        self.address = address
        self.timeout_s = timeout_s
        self.owner = owner
        self.exempt = exempt
        self.state = _NEW
        self.verdict = _ADMIT
        self.admitted_at = 0.0
        self.deadline_at = NEVER


class Expired(NamedTuple, Generic[Owner]):
    """What time alone brought about: who parked in vain (429; `verdict` has the budget), and who is forwarded now."""

    refused: list[WaitPermit[Owner]]
    admitted: list[WaitPermit[Owner]]


@dataclass(slots=True)
class WaitTotals:
    """What happened since the start: plain counters. `verdicts` by WaitVerdict has last words only, so PARK stays 0."""

    verdicts: list[int] = field(default_factory=lambda: [0] * len(WaitVerdict))
    parked: int = 0
    outside: int = 0
    ghosts: int = 0
    ghosts_expired: int = 0


@dataclass(frozen=True, slots=True)
class WaitStatistics:
    """The budgets in all. `used` is what counts against `workers`; `totals` is the policy's own object, to be read at once."""

    workers: int
    per_account: int
    per_device: int
    used: int
    live: int
    ghosts: int
    parked: int
    accounts: int
    totals: WaitTotals
