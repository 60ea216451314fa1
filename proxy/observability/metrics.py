"""Prometheus metrics: a view of the snapshot, taken when somebody scrapes.

No label names a person; each label's values are a closed list: states, classes of routes and statuses, lanes, reasons, rules.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.observability.egress_metrics import egress_metrics
from proxy.observability.families import counter, counters, counters_by, gauge, gauges
from proxy.observability.rule_metrics import rule_metrics
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
        yield from rule_metrics(now.rules)
        if now.operators is not None:
            yield from _operators(now.operators)
        if now.egress is not None:
            yield from egress_metrics(now.egress)


def _process(now: Snapshot) -> Iterator[Metric]:
    yield gauges("build_info", "1, with the version as a label.", "version", {now.version: 1})
    yield gauge("start_time_seconds", "When the process started, in seconds since the epoch.", now.started_at)
    yield gauge("uptime_seconds", "Seconds since the process started.", now.uptime_s)
    yield gauge("stopping", "1 while the process is stopping and accepts nothing new.", int(now.stopping))
    yield gauge(
        "settings_last_read_ok",
        "1 where the settings were right when they were last read, 0 while those of before hold instead.",
        int(not now.settings.mistakes),
    )
    yield gauge("open_descriptors", "File descriptors the process has open.", now.open_descriptors)
    yield gauge("descriptors_limit", "File descriptors the process may have open.", now.descriptor_limit)
    yield gauge("loop_lag_seconds", "How late the event loop last woke from a timer.", now.loop_lag_s)
    yield gauge(
        "loop_lag_worst_seconds", "The latest it woke from a timer in the last minute.", now.loop_lag_worst_s
    )
    yield counter("log_lines_lost", "Log lines that could not be written in time.", now.log_lines_lost_total)
    yield counter(
        "trace_lines_lost",
        "Lines of log.trace that could not be written in time.",
        now.trace_lines_lost_total,
    )


def _clients(now: Snapshot) -> Iterator[Metric]:
    yield gauges("client_connections", "Clients' connections by state.", "state", now.connections)
    yield gauge("client_connections_limit", "Clients' connections allowed at once.", now.connections_limit)
    yield counter("client_connections_accepted", "Clients' connections accepted.", now.accepted_total)
    yield counters("requests", "Requests by route class.", "route_class", now.requests_total)
    answers = (
        ((route, status), number)
        for route, statuses in now.answers_total.items()
        for status, number in statuses.items()
    )
    yield counters_by(
        "answers",
        "The homeserver's answers to clients by route class and status class.",
        ("route_class", "status_class"),
        answers,
    )
    enforced = (((reason, "enforce"), number) for reason, number in now.refused_total.items())
    reported = (((reason, "report"), number) for reason, number in now.rules.reported_total.items())
    yield counters_by(
        "refused",
        "Requests Fairgate answered itself (mode enforce), or would have (mode report), by reason.",
        ("reason", "mode"),
        (*enforced, *reported),
    )
    if now.listener is not None:
        yield gauge(
            "client_connections_crowded",
            "1 while more than three quarters of the connections are taken, and each address has its limit.",
            float(now.listener["crowded"]),
        )
        yield counters(
            "client_connections_turned_away",
            "Clients' connections closed to keep within limits, by reason.",
            "reason",
            now.listener["turned_away_total"],
        )
        if now.listener["tls"] is not None:
            yield from _tls(now.listener["tls"])
    yield counter("left", "Requests whose client left before the answer's end.", now.left_total)


def _tls(figures: Mapping[str, float]) -> Iterator[Metric]:
    states = {state: figures[f"handshakes_{state}"] for state in ("waiting", "open")}
    yield gauges("tls_handshakes", "TLS handshakes by state.", "state", states)
    yield counter("tls_handshakes_begun", "TLS handshakes begun.", figures["handshakes_begun_total"])
    yield counter(
        "tls_handshakes_done",
        "Of them, those that came about; of the others some are connections turned away, some left or were late.",
        figures["handshakes_done_total"],
    )
    yield gauge(
        "tls_certificate_expires_timestamp_seconds",
        "When the first of the listeners' certificates expires, in seconds since the epoch.",
        figures["certificate_expires_at"],
    )


def _operators(listeners: Mapping[str, Mapping[str, int]]) -> Iterator[Metric]:
    yield gauges(
        "operator_connections",
        "Connections to the operators' listeners.",
        "listener",
        {name: figures["open"] for name, figures in listeners.items()},
    )
    yield counters_by(
        "operator_connections_ended",
        "Of them, those that gave way to another (displaced) or were too slow (late).",
        ("listener", "reason"),
        (
            ((name, reason), figures[f"{reason}_total"])
            for name, figures in listeners.items()
            for reason in ("displaced", "late")
        ),
    )


def _upstream(pool: PoolStatistics) -> Iterator[Metric]:
    states = {"connecting": pool.connecting, "idle": pool.idle, "busy": pool.busy}
    failing_s = pool.failing_since_s or 0
    yield gauges("upstream_connections", "Connections to the homeserver by state.", "state", states)
    yield gauge("upstream_connections_limit", "Connections to the homeserver allowed at once.", pool.limit)
    yield gauge("upstream_waiting_requests", "Requests waiting for a connection.", pool.waiting)
    yield counter("upstream_connections_opened", "Connections opened to the homeserver.", pool.opened_total)
    yield counter(
        "upstream_connections_reused", "Times an idle connection was used again.", pool.reused_total
    )
    yield counter("upstream_requests_resent", "Requests sent again on another connection.", pool.resent_total)
    yield counter("upstream_connections_failed", "Connections that could not be opened.", pool.failed_total)
    yield gauge(
        "upstream_failing_seconds", "How long the homeserver has not been reachable; 0 if it is.", failing_s
    )
