"""Where requests wait: for who they are, then for a worker. Permits are given out and come back here, and nowhere else.

The rules decide (`identity`, `policies`); this acts on what they say, at once and without an await in between. `turn`, called
four times a second, is the one timer: it ends the waits that lasted too long.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

import structlog

from proxy import clock
from proxy.errors import Reason
from proxy.identity.identities import Identities
from proxy.identity.lookups import Lookup, Wait
from proxy.identity.principal import CONFIRMED, Principal
from proxy.matrix.access_token import AccessToken
from proxy.matrix.endpoint import Lane, RouteClass
from proxy.policies.worker_share import GRANTED, HELD, REFUSED, RUNNING, WAITING, Ticket, WorkerShare
from proxy.upstream.exchange import ENDED, IDENTIFYING, IN_LINE, Exchange
from proxy.upstream.whoami import Whoami

# Members of an enumeration are slow to look up on it, and these are looked up for every request.
_NONE, _VITAL, _FEDERATION, _APPSERVICES = Lane.NONE, Lane.VITAL, Lane.FEDERATION, Lane.APPSERVICES
_HISTORY = RouteClass.HISTORY
_JITTER: Final = 0.2  # §10.1

_log = structlog.get_logger("fairgate.gate")

#: What goes on with a request: told who asks, or that it has a worker.
Identified = Callable[[Exchange, Principal, float], None]
Granted = Callable[[Exchange, float], None]


class Gate:
    """All waits and permits of one homeserver. `enforces_lanes` False: the lanes' rules are counted, and hold nobody up."""

    identified: Identified
    granted: Granted

    def __init__(
        self, identities: Identities[Exchange], whoami: Whoami, share: WorkerShare, *, enforces_lanes: bool
    ) -> None:
        self.identities = identities
        self.share = share
        self.enforces_lanes = enforces_lanes
        self._whoami = whoami
        self._held_without_connection: deque[tuple[float, Ticket]] = deque()  # by when they end
        self.would_wait_total = 0
        self.would_refuse_total = 0

    # Who is asking.

    def identify(self, exchange: Exchange, access: AccessToken, now: float) -> Principal | None:
        """Give who asks; None where the request waits until the homeserver has said so."""
        client = exchange.asker
        identities = self.identities
        principal = identities.identify(access.token, access.user_id, client, now)
        if principal is None:
            answer = identities.wait(exchange, access.token, access.user_id, access.query, client, now)
            if isinstance(answer, Principal):
                principal = answer
            else:
                exchange.stage = IDENTIFYING
                exchange.wait = answer
        if identities.due:
            self._look_up(now)
        return principal

    def _look_up(self, now: float) -> None:
        for lookup in self.identities.start():
            self._whoami.ask(lookup.token, lookup.query, lookup.client, now, partial(self._looked_up, lookup))

    def _looked_up(self, lookup: "Lookup[Exchange]", status: int, answer: bytes, body: bytes) -> None:
        now = clock.now()
        waits = self.identities.answered(lookup, status, body, answer, now)
        if self.identities.due:
            self._look_up(now)
        self._go_on(waits, now)

    def _go_on(self, waits: "Sequence[Wait[Exchange]]", now: float) -> None:
        for wait in waits:
            exchange = wait.waiter
            exchange.wait = None
            if exchange.stage == IDENTIFYING:
                self.identified(exchange, cast(Principal, wait.principal), now)

    # A worker.

    def take_worker(self, exchange: Exchange, now: float) -> bool:
        """Tell whether the request may run now; else it is in line, or refused."""
        endpoint, principal = exchange.endpoint, cast(Principal, exchange.principal)
        lane = endpoint.lane
        if lane is _NONE:
            return True  # a long poll that only waits holds no worker
        if lane is _VITAL or lane is _FEDERATION:
            flow, confirmed = principal.key, False
        else:
            flow, confirmed = principal.flow, principal.standing == CONFIRMED
            if principal.appservice:
                lane = _APPSERVICES
        ticket = Ticket(
            lane,
            flow,
            principal.key,
            exchange,
            confirmed=confirmed,
            exempt=principal.exempt,
            address_capped=principal.address_capped,
            history=endpoint.route is _HISTORY,
        )
        exchange.ticket = ticket
        verdict = self.share.ask(ticket, now)
        if verdict == GRANTED:
            return True
        if not self.enforces_lanes:
            return self._take_anyway(ticket, verdict, now)
        displaced = self.share.displaced
        if displaced is not None:
            self._refuse(displaced, Reason.LINE_FULL, now)
        if verdict == REFUSED:
            self._refuse(ticket, Reason.LINE_FULL, now)
        else:
            exchange.stage = IN_LINE
        return False

    def _take_anyway(self, ticket: Ticket, verdict: int, now: float) -> bool:
        """Report mode: count what would have happened, and let the request run."""
        if verdict == REFUSED:
            self.would_refuse_total += 1
        else:
            self.would_wait_total += 1
        displaced = self.share.displaced
        if displaced is not None:
            raise AssertionError("nobody stands in line where no lane is enforced")
        self.share.take(ticket, now)
        return True

    def give_back(self, exchange: Exchange, now: float) -> None:
        """Take back the worker of a request that ended, or its place in line; whoever has one now runs."""
        ticket = exchange.ticket
        if ticket is None:
            return
        exchange.ticket = None
        if ticket.state == WAITING:
            granted = self.share.withdraw(ticket, now)
        elif ticket.state >= RUNNING:
            granted = self.share.release(ticket, now)
        else:
            return
        if granted:
            self._grant(granted, now)

    def hold(self, exchange: Exchange, now: float) -> None:
        """Count the worker of a request whose client is gone as held."""
        ticket = exchange.ticket
        if ticket is not None and ticket.state == RUNNING:
            granted = self.share.hold(ticket, now)
            if granted:
                self._grant(granted, now)

    def hold_until(self, exchange: Exchange, until: float, now: float) -> None:
        """Hold the worker of a request whose answer says that the homeserver is still at work: nobody will tell its end."""
        ticket = exchange.ticket
        if ticket is None or ticket.state not in (RUNNING, HELD):
            return
        if ticket.state == RUNNING:
            self.hold(exchange, now)
        exchange.ticket = None
        self._held_without_connection.append((until, ticket))

    def withdraw(self, exchange: Exchange, now: float) -> None:
        """End the wait of a request whose client left."""
        if exchange.wait is not None:
            self.identities.withdraw(exchange.wait)
            exchange.wait = None
        self.give_back(exchange, now)

    def _grant(self, granted: Sequence[Ticket], now: float) -> None:
        for ticket in granted:
            self.granted(cast(Exchange, ticket.owner), now)

    # Waits that end.

    def turn(self, now: float) -> None:
        """End the waits that lasted too long."""
        waits = self.identities.expired(now)
        if waits:
            self._go_on(waits, now)
        if self.identities.due:
            self._look_up(now)
        held = self._held_without_connection
        while held and held[0][0] <= now:
            self._grant(self.share.release(held.popleft()[1], now), now)
        expired = self.share.expired(now)
        for ticket in expired:
            self._refuse(ticket, Reason.LINE_TIMEOUT, now)
        if expired:
            self._grant(self.share.dispatch(now), now)

    def _refuse(self, ticket: Ticket, reason: Reason, now: float) -> None:
        exchange = cast(Exchange, ticket.owner)
        exchange.ticket = None
        exchange.end_body()
        exchange.stage = ENDED
        exchange.client.refuse(reason, jittered(self.share.retry_after_s(ticket, now), _JITTER))


def jittered(seconds: float, part: float) -> float:
    """Spread a hint by `part` of it to both sides, so that those who got it together do not come back together."""
    return seconds * random.uniform(1 - part, 1 + part)  # noqa: S311  (it hides nothing)
