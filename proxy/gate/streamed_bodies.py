"""A body that can be kept no longer asks here whether it may hold a worker while it comes (behaviour.md §3.1)."""

from typing import cast

from proxy.errors import Reason
from proxy.gate.steps import Steps
from proxy.identity.principal import Principal
from proxy.matrix.endpoint import Lane
from proxy.policies.streamed_bodies import StreamedBodies
from proxy.upstream.exchange import Exchange


class StreamedBodyGate:
    """All streamed bodies of one homeserver. `enforces` False: none is refused (§11.1)."""

    steps: Steps

    def __init__(self, bodies: StreamedBodies, *, enforces: bool) -> None:
        self.bodies = bodies
        self.enforces = enforces

    def take(self, exchange: Exchange) -> Reason | None:
        """Give why the body may not go on, None if it may.

        Not asked are accounts, who have their own share of the workers, the exempt, and what needs no worker.
        """
        principal, lane = cast(Principal, exchange.principal), exchange.endpoint.lane
        is_account = principal.confirmed and not principal.guest
        if is_account or principal.exempt or lane is Lane.NONE:
            return None
        if self.bodies.take(lane):
            exchange.given().streams_in = lane
            return None
        if self.enforces:
            return Reason.SPOOL_FULL
        self.steps.reported(exchange, Reason.SPOOL_FULL)
        return None

    def give_back(self, exchange: Exchange) -> None:
        """All of the body came, or the rest never will; twice is harmless."""
        permits = exchange.permits
        if permits is not None and permits.streams_in is not None:
            self.bodies.give_back(permits.streams_in)
            permits.streams_in = None
