"""Websockets get their right to be here, at once or not at all (behaviour.md §1.6)."""

from typing import cast

from proxy.errors import Reason
from proxy.gate.steps import Steps
from proxy.identity.principal import Principal
from proxy.policies.tunnels import TunnelPermit, Tunnels, TunnelVerdict
from proxy.upstream.exchange import Exchange

_ADMIT, _ACCOUNT, _ADDRESS, _TOTAL = TunnelVerdict
_REASONS = {
    _ACCOUNT: Reason.TUNNELS_ACCOUNT,
    _ADDRESS: Reason.TUNNELS_ADDRESS,
    _TOTAL: Reason.TUNNELS_TOTAL,
}


class TunnelGate:
    """All tunnels of one homeserver. `enforces` False: nothing is refused (§11.1) but what there is no connection for."""

    steps: Steps

    def __init__(self, tunnels: Tunnels, *, enforces: bool) -> None:
        self.tunnels = tunnels
        self.enforces = enforces

    def take(self, exchange: Exchange) -> Reason | None:
        """Give why an upgrade is refused, None if it may be."""
        principal = cast(Principal, exchange.principal)
        permit = TunnelPermit(
            principal.flow if principal.confirmed and not principal.exempt else None,
            principal.key if principal.address_capped and not principal.exempt else None,
        )
        verdict = self.tunnels.ask(permit)
        if verdict is not _ADMIT:
            if self.enforces or verdict is _TOTAL:
                return _REASONS[verdict]
            self.steps.reported(exchange, _REASONS[verdict])
            self.tunnels.take(permit)
        exchange.given().tunnel = permit
        return None

    def give_back(self, exchange: Exchange) -> None:
        """The tunnel is closed, or never was one."""
        permits = exchange.permits
        if permits is not None and permits.tunnel is not None:
            self.tunnels.end(permits.tunnel)
            permits.tunnel = None
