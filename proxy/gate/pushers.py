"""Registrations of pushers wait here for the account's list, one after the other (behaviour.md §7.1)."""

from collections.abc import Callable
from functools import partial
from typing import Final, cast

from proxy import clock
from proxy.errors import Reason
from proxy.gate.steps import Steps, jittered
from proxy.identity.principal import Principal
from proxy.matrix.access_token import AccessToken
from proxy.matrix.pusher_request import MAX_BODY_BYTES, parse_pusher_request, parse_pushers
from proxy.policies.push_egress import gateway_of
from proxy.policies.pusher_cap import PusherCap, PusherPermit, PusherVerdict
from proxy.upstream.exchange import IN_LINE, Exchange
from proxy.upstream.questions import PUSHERS, Questions

_PASS, _LIST, _WAIT, _REFUSE = PusherVerdict
_RETRY_AFTER_S: Final = 10.0


class PusherGate:
    """The cap of all accounts. `enforces` False: what would be refused goes on, counted (§11.1)."""

    steps: Steps

    def __init__(self, cap: "PusherCap[Exchange]", questions: Questions, *, enforces: bool) -> None:
        self.cap = cap
        self.enforces = enforces
        self._questions = questions
        #: Told of the gateway of each pusher that the homeserver accepted, host and port.
        self.learn: Callable[[str, int], object] = _forget

    def take(self, exchange: Exchange, now: float) -> bool:
        """Tell whether the request may go on now; else `may_register` follows, or it is refused. It has its worker by now."""
        principal = cast(Principal, exchange.principal)
        body = None if exchange.body is None else exchange.body.whole(MAX_BODY_BYTES)
        if body is not None:
            exchange.given().gateway = gateway_of(body)
        request = (
            None
            if body is None or not principal.confirmed or principal.exempt
            else parse_pusher_request(body)
        )
        if request is None:
            return True  # the homeserver's answer is the right one
        permit = PusherPermit(principal.flow, request, exchange, now)
        exchange.given().pusher = permit
        verdict = self.cap.ask(permit)
        if verdict is _PASS:
            return True
        exchange.stage = IN_LINE
        if verdict is _LIST:
            self._ask(permit, now)
        return False

    def give_back(self, exchange: Exchange, now: float) -> None:
        """The homeserver is done with it, or never got it: the account's next has its turn."""
        permits = exchange.permits
        if permits is None:
            return
        succeeded = 200 <= exchange.status < 300
        if permits.gateway is not None and succeeded:
            self.learn(*permits.gateway)
        if permits.pusher is None:
            return
        permit, permits.pusher = permits.pusher, None
        following = self.cap.end(permit, succeeded=succeeded)
        if following is not None:
            self._ask(following, now)

    def turn(self, now: float) -> None:
        """Refuse who waited too long for those before."""
        for permit in self.cap.overdue(now):
            self.steps.refuse(permit.owner, Reason.LINE_TIMEOUT, jittered(_RETRY_AFTER_S))

    def _ask(self, permit: "PusherPermit[Exchange]", now: float) -> None:
        exchange = permit.owner
        token = cast(AccessToken, exchange.access).token
        self._questions.ask(PUSHERS, token, exchange.asker, now, partial(self._listed, permit))

    def _listed(self, permit: "PusherPermit[Exchange]", status: int, _: bytes, body: bytes) -> None:
        exchange, now = permit.owner, clock.now()
        if exchange.permits is None or exchange.permits.pusher is not permit:
            return  # its client left meanwhile
        verdict = self.cap.listed(permit, parse_pushers(body) if status == 200 else None)
        if verdict is _REFUSE:
            if self.enforces:
                self.steps.refuse(exchange, Reason.PUSHERS_FULL)
                return
            self.steps.reported(exchange, Reason.PUSHERS_FULL)
        self.steps.may_register(exchange, now)


def _forget(_: str, __: int) -> None:
    """Nobody is told."""
