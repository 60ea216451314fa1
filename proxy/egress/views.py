"""The way out for status and metrics: two views of `EgressStatistics`. No label names a gateway; status does."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.egress.statistics import EgressStatistics


def egress_status(now: EgressStatistics) -> dict[str, Any]:
    """Return what JSON can hold; durations in seconds."""
    return {
        "listen": now.address,
        "connections": {
            "by_state": dict(now.connections),
            "limit": now.connections_limit,
            "accepted_total": now.accepted_total,
            "strangers_total": now.strangers_total,
        },
        "requests_total": dict(now.requests_total),
        "refused_total": dict(now.refused_total),
        "deliveries": {
            "under_way": now.deliveries_under_way,
            "waiting": now.deliveries_waiting,
            "ended_total": dict(now.deliveries_total),
            "rejected_filtered_total": now.rejected_filtered_total,
        },
        "lookups_running": now.lookups_running,
        "gateways": {
            "known": now.gateways_known,
            "federation_peers": now.peers_known,
            "failing_by_state": dict(now.gateways),
            "failing": [
                {
                    "gateway": one.gateway,
                    "state": one.state,
                    "failures_in_a_row": one.failures,
                    "next_probe_seconds": one.next_probe_s,
                }
                for one in now.failing
            ],
        },
    }


class EgressCollector(Collector):
    """Gives one picture's figures a scrape."""

    def __init__(self, statistics: Callable[[], EgressStatistics]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, all from the same moment."""
        now = self._statistics()
        yield _gauges("connections", "The homeserver's connections by state.", "state", now.connections)
        yield _counters("requests", "Requests by kind.", "kind", now.requests_total)
        yield _counters("refused", "Requests answered here, by reason.", "reason", now.refused_total)
        yield _counters("deliveries", "Push deliveries by how they ended.", "end", now.deliveries_total)
        yield _gauge(
            "deliveries_under_way", "Push deliveries without an answer yet.", now.deliveries_under_way
        )
        yield _gauge("deliveries_waiting", "Push deliveries waiting for a place.", now.deliveries_waiting)
        yield _gauge("gateways_known", "Push gateways learned.", now.gateways_known)
        yield _gauges("gateways_failing", "Gateways with failures in a row, by state.", "state", now.gateways)
        yield CounterMetricFamily(
            "fairgate_egress_rejected_filtered",
            "Answers out of which foreign pushkeys were taken.",
            value=now.rejected_filtered_total,
        )
        yield CounterMetricFamily(
            "fairgate_egress_strangers", "Connections from outside egress.clients.", value=now.strangers_total
        )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"fairgate_egress_{name}", text, value=value)


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"fairgate_egress_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"fairgate_egress_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
