"""Prometheus metrics: a view of the snapshot, taken when somebody scrapes.

No label names a person: there are `state` of a connection, `route_class` of a request, `reason` of a refusal.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.observability.snapshot import PoolStatistics, Snapshot


class SnapshotCollector(Collector):
    """Gives one snapshot's figures a scrape."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, all from the same moment."""
        now = self._snapshot()
        yield from _process(now)
        yield from _clients(now)
        yield from _upstream(now.pool)


def _process(now: Snapshot) -> Iterator[Metric]:
    yield _gauge(
        "start_time_seconds", "When the process started, in seconds since the epoch.", now.started_at
    )
    yield _gauge("uptime_seconds", "Seconds since the process started.", now.uptime_s)
    yield _gauge("stopping", "1 while the process is stopping and accepts nothing new.", int(now.stopping))
    yield _gauge("open_descriptors", "File descriptors the process has open.", now.open_descriptors)
    yield _gauge("descriptors_limit", "File descriptors the process may have open.", now.descriptor_limit)
    yield _gauge("loop_lag_seconds", "How late the event loop last woke from a timer.", now.loop_lag_s)


def _clients(now: Snapshot) -> Iterator[Metric]:
    yield _gauges("client_connections", "Clients' connections by state.", "state", now.connections)
    yield _gauge("client_connections_limit", "Clients' connections allowed at once.", now.connections_limit)
    yield _counter("client_connections_accepted", "Clients' connections accepted.", now.accepted_total)
    yield _counters("requests", "Requests by route class.", "route_class", now.requests_total)
    yield _counters("refused", "Requests Fairgate answered itself, by reason.", "reason", now.refused_total)
    yield _counter("left", "Requests whose client left before the answer's end.", now.left_total)


def _upstream(pool: PoolStatistics) -> Iterator[Metric]:
    states = {"connecting": pool.connecting, "idle": pool.idle, "busy": pool.busy}
    failing_s = pool.failing_since_s or 0
    yield _gauges("upstream_connections", "Connections to the homeserver by state.", "state", states)
    yield _gauge("upstream_connections_limit", "Connections to the homeserver allowed at once.", pool.limit)
    yield _gauge("upstream_waiting_requests", "Requests waiting for a connection.", pool.waiting)
    yield _counter("upstream_connections_opened", "Connections opened to the homeserver.", pool.opened_total)
    yield _counter(
        "upstream_connections_reused", "Times an idle connection was used again.", pool.reused_total
    )
    yield _counter(
        "upstream_requests_resent", "Requests sent again on another connection.", pool.resent_total
    )
    yield _counter("upstream_connections_failed", "Connections that could not be opened.", pool.failed_total)
    yield _gauge(
        "upstream_failing_seconds", "How long the homeserver has not been reachable; 0 if it is.", failing_s
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"fairgate_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"fairgate_{name}", text, value=value)


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"fairgate_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"fairgate_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
