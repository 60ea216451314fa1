"""The way out in Prometheus metrics. `EgressStatistics` is a part above, so it comes here as a mapping of its fields."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import Metric

from proxy.observability.families import counter, counters, gauge, gauges


def egress_metrics(egress: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield all of them."""
    yield gauges(
        "egress_connections", "The homeserver's connections to the way out.", "state", egress["connections"]
    )
    yield gauge(
        "egress_connections_limit",
        "The homeserver's connections to the way out allowed at once.",
        egress["connections_limit"],
    )
    yield counter(
        "egress_connections_accepted",
        "The homeserver's connections to the way out accepted.",
        egress["accepted_total"],
    )
    yield counter(
        "egress_strangers",
        "Connections closed since their peer is not in egress.clients.",
        egress["strangers_total"],
    )
    yield counters("egress_requests", "Requests on the way out by kind.", "kind", egress["requests_total"])
    yield counters(
        "egress_refused",
        "Requests on the way out that were refused, by reason.",
        "reason",
        egress["refused_total"],
    )
    yield counters(
        "egress_deliveries", "Deliveries of pushes by how they ended.", "outcome", egress["deliveries_total"]
    )
    states = {"under_way": egress["deliveries_under_way"], "waiting": egress["deliveries_waiting"]}
    yield gauges("egress_deliveries_now", "Deliveries of pushes under way or waiting.", "state", states)
    yield counter(
        "egress_rejected_filtered",
        "Answers whose rejected pushkeys had to be filtered.",
        egress["rejected_filtered_total"],
    )
    yield gauge("egress_gateways_known", "Push gateways known.", egress["gateways_known"])
    yield gauges(
        "egress_gateways", "Gateways tracked by state of their breaker.", "state", egress["gateways"]
    )
