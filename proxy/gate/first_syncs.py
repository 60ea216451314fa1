"""First syncs of one account wait here for each other (behaviour.md §5.5)."""

from typing import Final, cast

from proxy.errors import Reason
from proxy.gate.steps import Steps, jittered
from proxy.identity.principal import Principal
from proxy.policies.first_syncs import FirstSync, FirstSyncs, Turn
from proxy.upstream.exchange import IN_LINE, Exchange

_BEGIN, _WAIT, _REFUSE = Turn
_RETRY_AFTER_S: Final = 10.0


class FirstSyncGate:
    """All of one homeserver. `enforces` False: nobody waits, and who would have is counted (§11.1)."""

    steps: Steps

    def __init__(self, rule: "FirstSyncs[Exchange]", *, enforces: bool) -> None:
        self.rule = rule
        self.enforces = enforces

    def take(self, exchange: Exchange, now: float) -> bool:
        """Tell whether a first sync may go on now; else it waits for another of its account, or is refused."""
        principal = cast(Principal, exchange.principal)
        if principal.exempt:
            return True
        sync = FirstSync(principal.flow, exchange)
        verdict = self.rule.ask(sync, now)
        if verdict is not _BEGIN and not self.enforces:
            self.steps.reported(exchange, Reason.SYNC_ACCOUNT)
            self.rule.end(sync)
            return True
        if verdict is _REFUSE:
            self._refuse(exchange)
            return False
        exchange.given().first_sync = sync
        if verdict is _WAIT:
            exchange.stage = IN_LINE
        return verdict is _BEGIN

    def give_back(self, exchange: Exchange, now: float) -> None:
        """It ended, or its client left: the account's next has its turn."""
        permits = exchange.permits
        if permits is None or permits.first_sync is None:
            return
        sync, permits.first_sync = permits.first_sync, None
        following = self.rule.end(sync)
        if following is not None:
            self.steps.may_begin(following.owner, now)

    def turn(self, now: float) -> None:
        """Refuse who waited too long."""
        for sync in self.rule.expired(now):
            self._refuse(sync.owner)

    def _refuse(self, exchange: Exchange) -> None:
        self.steps.refuse(exchange, Reason.SYNC_ACCOUNT, jittered(_RETRY_AFTER_S))
