"""Requests stand in line here for one of the homeserver's workers, and give it back (behaviour.md §4)."""

from collections import deque
from collections.abc import Sequence
from typing import cast

from proxy.errors import Reason
from proxy.gate.steps import Steps, jittered
from proxy.identity.principal import CONFIRMED, Principal
from proxy.matrix.endpoint import Lane, RouteClass
from proxy.policies.worker_share import (
    GRANTED,
    HELD,
    REFUSED,
    RUNNING,
    WAITING,
    PoolRule,
    Ticket,
    WorkerShare,
)
from proxy.upstream.exchange import IN_LINE, Exchange

# Members of an enumeration are slow to look up on it, and these are looked up for every request.
_NONE, _VITAL, _FEDERATION, _APPSERVICES = Lane.NONE, Lane.VITAL, Lane.FEDERATION, Lane.APPSERVICES
_HISTORY = RouteClass.HISTORY
_TAKEN = (RUNNING, HELD)


class WorkerGate:
    """All workers of one homeserver. `enforces` False: the rules are counted, and hold nobody up (§11.1)."""

    steps: Steps

    def __init__(self, share: WorkerShare, *, enforces: bool) -> None:
        self.share = share
        self.enforces = enforces
        self.appservice_deadline_s = 0.0
        self.would_wait_total = 0
        self._held_without_connection: deque[tuple[float, Ticket]] = deque()  # by when they end

    def take(self, exchange: Exchange, now: float) -> bool:
        """Tell whether the request may run now; else it stands in line, or is refused."""
        endpoint = exchange.endpoint
        principal: Principal = exchange.principal  # type: ignore[assignment]  # known by now, and a cast costs
        lane = endpoint.lane
        if lane is _NONE:
            return True  # a long poll that only waits holds no worker
        if lane is _VITAL or lane is _FEDERATION:
            flow, confirmed = principal.key, False  # whoever asks, the address is what counts
        else:
            flow, confirmed = principal.flow, principal.standing == CONFIRMED
            if principal.appservice:
                lane = _APPSERVICES
                exchange.deadline_s = self.appservice_deadline_s
        exchange.ticket = ticket = Ticket(
            lane,
            flow,
            principal.key,
            exchange,
            confirmed=confirmed,
            exempt=principal.exempt,
            address_capped=principal.address_capped,
            history=endpoint.route is _HISTORY and not principal.exempt,
        )
        verdict = self.share.ask(ticket, now)
        if verdict == GRANTED:
            return True
        if not self.enforces:
            self._take_anyway(exchange, ticket, verdict, now)
            return True
        if self.share.displaced is not None:
            self._refuse(self.share.displaced, Reason.LINE_FULL, now)
        if verdict == REFUSED:
            self._refuse(ticket, Reason.LINE_FULL, now)
        else:
            exchange.stage = IN_LINE
        return False

    def give_back(self, exchange: Exchange, now: float) -> None:
        """Take back the worker of a request that ended, or its place in line; whoever is next runs."""
        ticket = exchange.ticket
        if ticket is None:
            return
        exchange.ticket = None
        if ticket.state == WAITING:
            self._grant(self.share.withdraw(ticket, now), now)
        elif ticket.state in _TAKEN:
            granted = self.share.release(ticket, now)
            if granted:
                self._grant(granted, now)

    def hold(self, exchange: Exchange, now: float) -> None:
        """The client is gone, the homeserver works on: the worker counts as held."""
        ticket = exchange.ticket
        if ticket is not None and ticket.state == RUNNING:
            self._grant(self.share.hold(ticket, now), now)

    def hold_until(self, exchange: Exchange, until: float, now: float) -> None:
        """The answer says that the homeserver may still be at work, and nobody will tell its end. `until` never decreases."""
        ticket = exchange.ticket
        if ticket is None or ticket.state not in _TAKEN:
            return
        self.hold(exchange, now)
        exchange.ticket = None
        self._held_without_connection.append((until, ticket))

    def turn(self, now: float) -> None:
        """End what was held long enough, and refuse who stood in line too long."""
        held = self._held_without_connection
        while held and held[0][0] <= now:
            self._grant(self.share.release(held.popleft()[1], now), now)
        expired = self.share.expired(now)
        for ticket in expired:
            self._refuse(ticket, Reason.LINE_TIMEOUT, now)
        if expired:
            self._grant(self.share.dispatch(now), now)

    def reconfigure(self, rules: Sequence[PoolRule], now: float, *, address_share: float) -> None:
        """Take other figures for the same lanes; workers given out stay counted."""
        self._grant(self.share.reconfigure(rules, now, address_share=address_share), now)

    def replace(self, share: WorkerShare, now: float) -> None:
        """Take other lanes, as at start when the homeserver said what it is; who stands in line does so in the new one."""
        waiting = self.share.clear_lines(now)
        self.share = share
        for ticket in waiting:
            exchange = cast(Exchange, ticket.owner)
            if self.take(exchange, now):
                self.steps.has_worker(exchange, now)

    def _take_anyway(self, exchange: Exchange, ticket: Ticket, verdict: int, now: float) -> None:
        if verdict == REFUSED:
            self.steps.reported(exchange, Reason.LINE_FULL)
        else:
            self.would_wait_total += 1
        self.share.take(ticket, now)

    def _grant(self, granted: Sequence[Ticket], now: float) -> None:
        for ticket in granted:
            self.steps.has_worker(cast(Exchange, ticket.owner), now)

    def _refuse(self, ticket: Ticket, reason: Reason, now: float) -> None:
        self.steps.refuse(
            cast(Exchange, ticket.owner), reason, jittered(self.share.retry_after_s(ticket, now))
        )
