"""Long polls get their place here, at once or not at all, and give it back (behaviour.md §5)."""

from collections.abc import Sequence
from typing import Final, cast

from proxy.errors import Reason
from proxy.gate.steps import Steps, jittered
from proxy.identity.principal import Principal
from proxy.matrix.endpoint import Lane
from proxy.matrix.profiles import Figures
from proxy.matrix.sync_request import sync_timeout_s
from proxy.policies.sync_wait import SyncWait
from proxy.policies.wait_values import RETRY_AFTER_S, WaitPermit, WaitVerdict
from proxy.upstream.exchange import IN_LINE, Exchange

_REQUESTS = Lane.REQUESTS
_ADMIT, _PARK = WaitVerdict.ADMIT, WaitVerdict.PARK
_REASONS: Final = {
    WaitVerdict.SYNC_DEVICE: Reason.SYNC_DEVICE,
    WaitVerdict.SYNC_ACCOUNT: Reason.SYNC_ACCOUNT,
    WaitVerdict.SYNC_TOTAL: Reason.SYNC_TOTAL,
}


class WaitGate:
    """All waits of one homeserver. `enforces` False: what would be refused runs all the same (§11.1)."""

    steps: Steps

    def __init__(
        self, budgets: "SyncWait[Exchange]", *, grace_s: float, max_timeout_s: float, enforces: bool
    ) -> None:
        self.budgets = budgets
        self.max_timeout_s = max_timeout_s
        self.grace_s = grace_s
        self.enforces = enforces

    def take(self, exchange: Exchange, now: float) -> bool:
        """Tell whether the wait may begin now; else it parks a moment for its device's place, or is refused."""
        principal = cast(Principal, exchange.principal)
        asked_s = sync_timeout_s(exchange.head.target)
        if asked_s is None:
            asked_s = 0.0 if exchange.endpoint.lane is _REQUESTS else self.max_timeout_s
        timeout_s = min(asked_s, self.max_timeout_s)
        exchange.given().wait = permit = WaitPermit(
            principal.flow,
            principal.device,
            principal.key if principal.address_capped else None,
            timeout_s,
            exchange,
            exempt=principal.exempt,
        )
        if not self.enforces:
            verdict = self.budgets.take(permit, now)
            if verdict is not _ADMIT:
                self.steps.reported(exchange, _REASONS[verdict])
            return True
        verdict = self.budgets.ask(permit, now)
        if verdict is _ADMIT:
            return True
        if verdict is _PARK:
            exchange.stage = IN_LINE
        else:
            self._refuse(permit)
        return False

    def give_back(self, exchange: Exchange, now: float) -> None:
        """The wait ended, or never began: whoever parks for its place has it."""
        permits = exchange.permits
        if permits is not None and permits.wait is not None:
            permit, permits.wait = permits.wait, None
            self._admit(self.budgets.end(permit, now), now)

    def left(self, exchange: Exchange, now: float) -> None:
        """Its client is gone, the homeserver goes on: it is a ghost."""
        permits = exchange.permits
        if permits is not None and permits.wait is not None:
            self._admit(self.budgets.left(permits.wait, now), now)

    def turn(self, now: float) -> None:
        """End ghosts whose time is over, and refuse who parked in vain."""
        if self.budgets.next_deadline() <= now:
            expired = self.budgets.expired(now)
            for permit in expired.refused:
                self._refuse(permit)
            self._admit(expired.admitted, now)

    def reconfigure(self, figures: Figures, now: float) -> None:
        """Take other budgets; what waits goes on."""
        admitted = self.budgets.reconfigure(
            workers=figures.sync_workers,
            per_account=figures.waits_per_account,
            per_device=figures.waits_per_device,
            grace_s=self.grace_s,
            now=now,
        )
        self._admit(admitted, now)

    def _admit(self, permits: "Sequence[WaitPermit[Exchange]]", now: float) -> None:
        for permit in permits:
            self.steps.may_wait(permit.owner, now)

    def _refuse(self, permit: "WaitPermit[Exchange]") -> None:
        self.steps.refuse(permit.owner, _REASONS[permit.verdict], jittered(RETRY_AFTER_S[permit.verdict]))
