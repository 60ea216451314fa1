"""The document of `/v1/status`: the snapshot for a person, all figures since start or of now."""

from typing import Any

from proxy.observability.snapshot import Snapshot


def status_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return what JSON can hold; durations in seconds."""
    return {
        "build": {"version": snapshot.version},
        "started_at": snapshot.started_at,
        "uptime_seconds": snapshot.uptime_s,
        "stopping": snapshot.stopping,
        "connections": {
            "by_state": dict(snapshot.connections),
            "limit": snapshot.connections_limit,
            "accepted_total": snapshot.accepted_total,
        },
        "requests_total": dict(snapshot.requests_total),
        "refused_total": dict(snapshot.refused_total),
        "left_total": snapshot.left_total,
        "upstream": {"homeserver": snapshot.homeserver, "pool": _pool(snapshot)},
        "process": {
            "open_descriptors": snapshot.open_descriptors,
            "descriptors_limit": snapshot.descriptor_limit,
            "loop_lag_seconds": snapshot.loop_lag_s,
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
