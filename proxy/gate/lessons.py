"""What is learned from how a request ended: tokens that are over (behaviour.md §2.3), homeservers that federate (§7.2)."""

from collections.abc import Callable

from proxy.gate.identity import access_of
from proxy.identity.identities import Identities
from proxy.matrix.endpoint import RouteClass
from proxy.policies.push_egress import peer_of
from proxy.upstream.exchange import Exchange

_FEDERATION = RouteClass.FEDERATION


class Lessons:
    """`learn_peer` None: nobody wants to know who federates."""

    def __init__(self, identities: Identities[Exchange]) -> None:
        self._identities = identities
        self.learn_peer: Callable[[str], None] | None = None

    def ended(self, exchange: Exchange) -> None:
        """The homeserver is done with it."""
        accepted = 200 <= exchange.status < 300
        access = exchange.access
        if exchange.endpoint.kills_token and accepted:
            access = access or access_of(exchange.head)  # some of these are open to whoever has none
        elif exchange.status != 401:
            access = None
        if access is not None and access.token:
            self._identities.drop(access.token)
        if self.learn_peer is not None and accepted and exchange.endpoint.route is _FEDERATION:
            authorization = exchange.head.fields.authorization
            peer = peer_of(exchange.head.target, authorization[0]) if len(authorization) == 1 else None
            if peer is not None:
                self.learn_peer(peer)
