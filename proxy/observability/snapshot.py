"""One picture of the process, taken when somebody looks: status JSON and metrics are two views of it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """Connections to the homeserver by state, and what happened to them since start."""

    limit: int
    connecting: int
    idle: int
    busy: int
    waiting: int
    opened_total: int
    reused_total: int
    resent_total: int
    failed_total: int
    failing_since_s: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All figures are since start or of now; durations in seconds, sizes in bytes."""

    version: str
    started_at: float
    uptime_s: float
    stopping: bool
    homeserver: str
    connections: Mapping[str, int]
    connections_limit: int
    accepted_total: int
    requests_total: Mapping[str, int]
    refused_total: Mapping[str, int]
    left_total: int
    open_descriptors: int
    descriptor_limit: int
    loop_lag_s: float
    pool: PoolStatistics
