"""Requests wait here until the homeserver has said whose their token is (behaviour.md §2.3, §2.4)."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from proxy import clock
from proxy.gate.steps import Steps
from proxy.http1.request_head import RequestHead
from proxy.identity.identities import Identities
from proxy.identity.lookups import Lookup, Wait
from proxy.identity.principal import Principal
from proxy.matrix.access_token import AccessToken, may_name_token, read_access_token
from proxy.upstream.exchange import IDENTIFYING, Exchange
from proxy.upstream.questions import WHOAMI, Questions


class IdentityGate:
    """Runs the look-ups that `identities` asks for."""

    steps: Steps

    def __init__(self, identities: Identities[Exchange], questions: Questions) -> None:
        self.identities = identities
        self.questions = questions

    def identify(self, exchange: Exchange, access: AccessToken, now: float) -> Principal | None:
        """Give who asks; None where the request waits, `identified` follows."""
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

    def withdraw(self, exchange: Exchange) -> None:
        """Let a request wait no longer."""
        if exchange.wait is not None:
            self.identities.withdraw(exchange.wait)
            exchange.wait = None

    def turn(self, now: float) -> None:
        """Let those go on who waited too long: they count as their address."""
        waits = self.identities.expired(now)
        if waits:
            self._go_on(waits, now)
        if self.identities.due:
            self._look_up(now)

    def _look_up(self, now: float) -> None:
        for lookup in self.identities.start():
            target = b"%b?%b" % (WHOAMI, lookup.query) if lookup.query else WHOAMI
            self.questions.ask(target, lookup.token, lookup.client, now, partial(self._looked_up, lookup))

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
                self.steps.identified(exchange, cast(Principal, wait.principal), now)


def access_of(head: RequestHead) -> AccessToken:
    """Read the token; what a block of fields says of it is kept beside it."""
    fields = head.fields
    query = head.target.partition(b"?")[2]
    if query and may_name_token(query):
        return read_access_token(fields.authorization, query)
    access: AccessToken | None = fields.access
    if access is None:
        access = fields.access = read_access_token(fields.authorization, b"")
    return access
