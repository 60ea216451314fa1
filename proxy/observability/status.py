"""The document of `/v1/status`: the snapshot for people and programs.

docs/status.md describes it, docs/status.schema.json is its JSON schema. Names stay within a major version; new ones may come.
All figures are since start or of now; durations in seconds, sizes in bytes. Nothing here names a person.
"""

from typing import Any

from proxy.observability.rule_status import homeserver_status, rule_status
from proxy.observability.snapshot import Snapshot


def status_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return what JSON can hold."""
    rules = snapshot.rules
    return {
        "build": {"version": snapshot.version},
        "started_at": snapshot.started_at,
        "uptime_seconds": snapshot.uptime_s,
        "stopping": snapshot.stopping,
        "settings": {
            "read_at": snapshot.settings.read_at,
            "needs_restart": list(snapshot.settings.needs_restart),
            "mistakes": list(snapshot.settings.mistakes),
        },
        "profile": {
            "name": rules.profile,
            "figures": {
                key: {"value": figure.value, "origin": figure.origin} for key, figure in rules.figures.items()
            },
        },
        "modes": dict(rules.modes),
        "connections": {
            "by_state": dict(snapshot.connections),
            "limit": snapshot.connections_limit,
            "accepted_total": snapshot.accepted_total,
            **(snapshot.listener or {}),
        },
        "requests_total": dict(snapshot.requests_total),
        "answers_total": {route: dict(statuses) for route, statuses in snapshot.answers_total.items()},
        "refused_total": dict(snapshot.refused_total),
        "reported_total": dict(rules.reported_total),
        "would_wait_total": rules.would_wait_total,
        "left_total": snapshot.left_total,
        **rule_status(rules),
        "homeservers": [homeserver_status(rules)],
        "egress": None if snapshot.egress is None else dict(snapshot.egress),
        "upstream": {"homeserver": snapshot.homeserver, "pool": _pool(snapshot)},
        "operators": dict(snapshot.operators or {}),
        "process": {
            "open_descriptors": snapshot.open_descriptors,
            "descriptors_limit": snapshot.descriptor_limit,
            "loop_lag_seconds": snapshot.loop_lag_s,
            "loop_lag_worst_seconds": snapshot.loop_lag_worst_s,
            "log_lines_lost_total": snapshot.log_lines_lost_total,
            "trace_lines_lost_total": snapshot.trace_lines_lost_total,
        },
    }


def _pool(snapshot: Snapshot) -> dict[str, Any]:
    pool = snapshot.pool
    return {
        "limit": pool.limit,
        "connecting": pool.connecting,
        "idle": pool.idle,
        "busy": pool.busy,
        "waiting": pool.waiting,
        "opened_total": pool.opened_total,
        "reused_total": pool.reused_total,
        "resent_total": pool.resent_total,
        "failed_total": pool.failed_total,
        "failing_seconds": pool.failing_since_s,
    }
