"""Long polls are admitted at once or not at all, within budgets by device, by account and in all (behaviour.md §5).

What counts, with W waits in all, A an account's budget and D a device's (A where no device is known):

- device: its live waits, below D
- account: its live waits and its ghosts beyond A, below A
- in all: live waits and max(ghosts beyond their account's A, ghosts beyond W/4), below W; above 3/4 W only an account's first
  wait, and only while its address has fewer than W/2 waits and ghosts

A ghost is a wait whose client left: the homeserver goes on with it, until it ends there or `timeout + 5 s` after it began.
Promise: live waits and ghosts together never exceed W + W/4, an account's never 2 A; the waits of one address leave W/4 to the
first waits of others. A request of a device that has a live wait may park for `grace_s`, one a device: clients replace a wait
before we see that the old one is gone.

Memory is bounded by live waits and ghosts; every call is O(A) at most, but `reconfigure`. Left to others: who is asking, what
a wait that does work costs (the lanes), deadlines of the answer, the 429 itself. Calls that free a place give the permits that
were admitted by it: the caller forwards these now.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic

from proxy.http1.deadlines import NEVER
from proxy.policies.wait_values import (
    Expired,
    Owner,
    WaitPermit,
    WaitState,
    WaitStatistics,
    WaitTotals,
    WaitVerdict,
)

GHOST_SLACK_S: Final = 5.0  # homeservers answer a little after the timeout

_ADMIT, _PARK, _SYNC_DEVICE, _SYNC_ACCOUNT, _SYNC_TOTAL = WaitVerdict
_NEW, _PARKED, _LIVE, _GHOST, _OUTSIDE, _DONE = WaitState


class _Account:
    """The live waits of an account by device, none of them 0, and its ghosts."""

    __slots__ = ("devices", "ghosts", "live")

    def __init__(self) -> None:
        self.live = 0
        self.ghosts = 0
        self.devices: dict[Hashable | None, int] = {}


class SyncWait(Generic[Owner]):
    """The budgets of one homeserver's waits. `now` is in monotonic seconds and never goes back."""

    def __init__(self, *, workers: int, per_account: int, per_device: int, grace_s: float) -> None:
        self.totals = WaitTotals()
        self._accounts: dict[Hashable, _Account] = {}
        self._addresses: dict[Hashable, int] = {}
        self._parked: dict[Hashable, dict[Hashable | None, WaitPermit[Owner]]] = {}  # by account and device
        self._parked_count = 0
        self._live = 0
        self._ghosts = 0
        self._over_account = 0  # ghosts beyond their account's budget
        self._deadlines: list[tuple[float, int, WaitPermit[Owner]]] = []
        self._pushes = 0
        self._set(workers, per_account, per_device, grace_s)

    def reconfigure(
        self, *, workers: int, per_account: int, per_device: int, grace_s: float, now: float
    ) -> list[WaitPermit[Owner]]:
        """Take other budgets; what was admitted stays. O(accounts)."""
        self._set(workers, per_account, per_device, grace_s)
        self._over_account = sum(max(0, account.ghosts - per_account) for account in self._accounts.values())
        return [permit for account in list(self._parked) for permit in self._admit_waiting(account, now)]

    def _set(self, workers: int, per_account: int, per_device: int, grace_s: float) -> None:
        self._workers = workers
        self._per_account = per_account
        self._per_device = min(per_device, per_account)
        self._grace_s = grace_s

    # Asking.

    def ask(self, permit: WaitPermit[Owner], now: float) -> WaitVerdict:
        """Judge a new wait. PARK: it is admitted by a later call, or refused by `expired`."""
        verdict = self._judge(permit)
        if verdict is _ADMIT:
            self._admit(permit, now)
        elif self._may_park(permit):
            self._park(permit, now)
            return _PARK
        else:
            self._refuse(permit, verdict)
        return verdict

    def take(self, permit: WaitPermit[Owner], now: float) -> WaitVerdict:
        """Judge a wait that goes on whatever the verdict is (report mode); refused ones are in no books."""
        verdict = self._judge(permit)
        if verdict is _ADMIT:
            self._admit(permit, now)
        else:
            self._refuse(permit, verdict)
            permit.state = _OUTSIDE
            self.totals.outside += 1
        return verdict

    # From admission to the end.

    def end(self, permit: WaitPermit[Owner], now: float) -> list[WaitPermit[Owner]]:
        """The answer is complete, or the wait failed, or was never forwarded: its place is free. Gives who is admitted."""
        state = permit.state
        permit.state = _DONE
        if state is _PARKED:
            self._leave_parking(permit)
        if state is _LIVE:
            self._leave_live(permit)
        elif state is _GHOST:
            self._leave_ghosts(permit)
        else:
            return []
        self._leave_address(permit.address)
        return self._admit_waiting(permit.account, now)

    def left(self, permit: WaitPermit[Owner], now: float) -> list[WaitPermit[Owner]]:
        """The client of a forwarded wait left: it is a ghost from now on. Gives who is admitted."""
        until = permit.admitted_at + permit.timeout_s + GHOST_SLACK_S
        if permit.state is not _LIVE or until <= now:
            return self.end(permit, now)
        permit.state = _GHOST
        account = self._accounts[permit.account]
        account.ghosts += 1
        self._ghosts += 1
        self._over_account += account.ghosts > self._per_account
        self._leave_live(permit)
        self._set_deadline(permit, until)
        self.totals.ghosts += 1
        return self._admit_waiting(permit.account, now)

    # Time.

    def next_deadline(self) -> float:
        """Give when `expired` has something to do; NEVER if only a call can change anything."""
        self._drop_stale()
        return self._deadlines[0][0] if self._deadlines else NEVER

    def expired(self, now: float) -> Expired[Owner]:
        """End ghosts whose time is over, and the parking of those whose device got no place."""
        refused: list[WaitPermit[Owner]] = []
        admitted: list[WaitPermit[Owner]] = []
        while self.next_deadline() <= now:
            permit = self._deadlines[0][2]
            if permit.state is _GHOST:
                self.totals.ghosts_expired += 1
                admitted += self.end(permit, now)
            elif self._admit_parked(permit, now):
                admitted.append(permit)
            else:
                verdict = self._judge(permit)
                self.end(permit, now)
                self._refuse(permit, verdict)
                refused.append(permit)
        return Expired(refused, admitted)

    # Views.

    def statistics(self) -> WaitStatistics:
        """Give a picture of the budgets."""
        return WaitStatistics(
            workers=self._workers,
            per_account=self._per_account,
            per_device=self._per_device,
            used=self._used(),
            live=self._live,
            ghosts=self._ghosts,
            parked=self._parked_count,
            accounts=len(self._accounts),
            totals=self.totals,
        )

    def by_account(self) -> dict[Hashable, tuple[int, int]]:
        """Give each account's live waits and ghosts; O(accounts), for those who look."""
        return {key: (account.live, account.ghosts) for key, account in self._accounts.items()}

    # Judging.

    def _used(self) -> int:
        return self._live + max(self._over_account, self._ghosts - self._workers // 4)

    def _judge(self, permit: WaitPermit[Owner]) -> WaitVerdict:
        used = self._used()
        if permit.exempt:
            return _ADMIT if used < self._workers else _SYNC_TOTAL
        account = self._accounts.get(permit.account)
        counted = 0
        if account is not None:
            if permit.device is not None and account.devices.get(permit.device, 0) >= self._per_device:
                return _SYNC_DEVICE
            counted = account.live + max(0, account.ghosts - self._per_account)
            if counted >= self._per_account:
                return _SYNC_ACCOUNT
        if 4 * used < 3 * self._workers:
            return _ADMIT
        address_is_modest = (
            permit.address is None or 2 * self._addresses.get(permit.address, 0) < self._workers
        )
        return _ADMIT if used < self._workers and not counted and address_is_modest else _SYNC_TOTAL

    def _refuse(self, permit: WaitPermit[Owner], verdict: WaitVerdict) -> None:
        permit.state = _DONE
        permit.verdict = verdict
        self.totals.verdicts[verdict] += 1

    # The books.

    def _admit(self, permit: WaitPermit[Owner], now: float) -> None:
        permit.state = _LIVE
        permit.admitted_at = now
        self.totals.verdicts[_ADMIT] += 1
        self._live += 1
        account = self._accounts.get(permit.account)
        if account is None:
            account = self._accounts[permit.account] = _Account()
        account.live += 1
        account.devices[permit.device] = account.devices.get(permit.device, 0) + 1
        if permit.address is not None:
            self._addresses[permit.address] = self._addresses.get(permit.address, 0) + 1

    def _leave_live(self, permit: WaitPermit[Owner]) -> None:
        account = self._accounts[permit.account]
        self._live -= 1
        account.live -= 1
        on_device = account.devices[permit.device] - 1
        if on_device:
            account.devices[permit.device] = on_device
        else:
            del account.devices[permit.device]
        self._maybe_forget(permit.account, account)

    def _leave_ghosts(self, permit: WaitPermit[Owner]) -> None:
        account = self._accounts[permit.account]
        self._over_account -= account.ghosts > self._per_account
        account.ghosts -= 1
        self._ghosts -= 1
        self._forget_deadline(permit)
        self._maybe_forget(permit.account, account)

    def _maybe_forget(self, key: Hashable, account: _Account) -> None:
        if not account.live and not account.ghosts:
            del self._accounts[key]

    def _leave_address(self, address: Hashable | None) -> None:
        if address is None:
            return
        left = self._addresses[address] - 1
        if left:
            self._addresses[address] = left
        else:
            del self._addresses[address]

    # Parking.

    def _may_park(self, permit: WaitPermit[Owner]) -> bool:
        """Tell whether a place of the device can come free, and nobody waits for it yet."""
        account = self._accounts.get(permit.account)
        return (
            self._grace_s > 0
            and account is not None
            and permit.device in account.devices
            and permit.device not in self._parked.get(permit.account, ())
        )

    def _park(self, permit: WaitPermit[Owner], now: float) -> None:
        permit.state = _PARKED
        self._parked.setdefault(permit.account, {})[permit.device] = permit
        self._parked_count += 1
        self._set_deadline(permit, now + self._grace_s)
        self.totals.parked += 1

    def _leave_parking(self, permit: WaitPermit[Owner]) -> None:
        of_account = self._parked[permit.account]
        del of_account[permit.device]
        if not of_account:
            del self._parked[permit.account]
        self._parked_count -= 1
        self._forget_deadline(permit)

    def _admit_parked(self, permit: WaitPermit[Owner], now: float) -> bool:
        if self._judge(permit) is not _ADMIT:
            return False
        self._leave_parking(permit)
        self._admit(permit, now)
        return True

    def _admit_waiting(self, account: Hashable, now: float) -> list[WaitPermit[Owner]]:
        """Admit whoever of the account is parked and has room now."""
        waiting = self._parked.get(account)
        if waiting is None:
            return []
        return [permit for permit in list(waiting.values()) if self._admit_parked(permit, now)]

    # Deadlines: a heap in which what is over stays until it comes up, or until there is more of it than of the rest.

    def _set_deadline(self, permit: WaitPermit[Owner], at: float) -> None:
        permit.deadline_at = at
        self._pushes += 1
        heappush(self._deadlines, (at, self._pushes, permit))

    def _forget_deadline(self, permit: WaitPermit[Owner]) -> None:
        permit.deadline_at = NEVER
        if len(self._deadlines) > 2 * (self._ghosts + self._parked_count) + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[2].deadline_at == entry[0]]
            heapify(self._deadlines)

    def _drop_stale(self) -> None:
        while self._deadlines and self._deadlines[0][2].deadline_at != self._deadlines[0][0]:
            heappop(self._deadlines)
