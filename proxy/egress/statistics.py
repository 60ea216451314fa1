"""The way out in figures: one picture, of which status and metrics are views."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.egress.connection import ConnectionState
from proxy.mechanisms.breaker import BreakerState
from proxy.policies.push_egress import DeliveryEnd

if TYPE_CHECKING:
    from proxy.egress.egress import Egress

_MAX_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class GatewayStatistics:
    """A gateway that failed last. `next_probe_s` counts from now, None while it is still admitted."""

    gateway: str
    state: str
    failures: int
    next_probe_s: float | None


@dataclass(frozen=True, slots=True)
class EgressStatistics:
    """Totals are since start; `failing` lists at most 100, those refused first, the latest failure first."""

    address: str | None
    connections: Mapping[str, int]
    connections_limit: int
    accepted_total: int
    strangers_total: int
    requests_total: Mapping[str, int]
    refused_total: Mapping[str, int]
    deliveries_total: Mapping[str, int]
    deliveries_under_way: int
    deliveries_waiting: int
    rejected_filtered_total: int
    lookups_running: int
    gateways_known: int
    peers_known: int
    gateways: Mapping[str, int]
    failing: tuple[GatewayStatistics, ...]


def egress_statistics(egress: "Egress") -> EgressStatistics:
    """Take the picture; O(connections + tracked gateways)."""
    states = dict.fromkeys((state.name.lower() for state in ConnectionState), 0)
    for connection in egress.connections:
        states[connection.state.name.lower()] += 1
    deliveries = egress.deliveries
    tracked = list(deliveries.breaker.tracked(egress.clock()))
    by_state = dict.fromkeys((state.name.lower() for state in BreakerState), 0)
    for one in tracked:
        by_state[one.state.name.lower()] += 1
    tracked.reverse()
    tracked.sort(key=lambda one: one.state is BreakerState.ADMITTING)
    return EgressStatistics(
        address=egress.address,
        connections=states,
        connections_limit=egress.settings.max_connections,
        accepted_total=egress.accepted_total,
        strangers_total=egress.strangers_total,
        requests_total=dict(egress.requests_total),
        refused_total=dict(egress.refused_total),
        deliveries_total={end.name.lower(): deliveries.ends_total[end] for end in DeliveryEnd},
        deliveries_under_way=deliveries.places.in_use,
        deliveries_waiting=deliveries.places.waiting,
        rejected_filtered_total=egress.filtered_total,
        lookups_running=egress.resolver.running,
        gateways_known=len(egress.known.gateways),
        peers_known=len(egress.known.peers),
        gateways=by_state,
        failing=tuple(
            GatewayStatistics(one.key, one.state.name.lower(), one.failures, one.next_probe_s)
            for one in tracked[:_MAX_LISTED]
        ),
    )
