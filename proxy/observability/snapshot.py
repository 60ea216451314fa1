"""One picture of the process, taken when somebody looks: status JSON and metrics are two views of it.

Parts below this one give their own statistics, those above are told here in plain figures. Nothing here names a person.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.identity.identities import IdentityStatistics
from proxy.matrix.profiles import Figure
from proxy.mechanisms.byte_budget import ByteBudgetStatistics
from proxy.observability.durations import DurationStatistics
from proxy.policies.body_size import BodySizeStatistics
from proxy.policies.gate_values import GateStatistics
from proxy.policies.pusher_cap import PusherStatistics
from proxy.policies.tunnels import TunnelStatistics
from proxy.policies.wait_values import WaitStatistics
from proxy.policies.worker_statistics import ShareStatistics


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
class DirectionStatistics:
    """Bodies of one direction that are kept now, and their spool."""

    open: int
    spooled_total: int
    disk: ByteBudgetStatistics


@dataclass(frozen=True, slots=True)
class SpoolFigures:
    """Spool files and what was done with them."""

    open_files: int
    disk_bytes: int
    operations_in_flight: int
    written_bytes_total: int
    read_bytes_total: int
    failures_total: int


@dataclass(frozen=True, slots=True)
class BodyStatistics:
    """What is kept of bodies and answers; `memory` is shared by both.

    `relayed_total`: the homeserver's refusals of tokens that were passed on before a body was read. `streaming_unconfirmed`:
    bodies without an account that hold a worker while they come.
    """

    sizes: BodySizeStatistics
    relayed_total: int
    streaming_unconfirmed: int
    memory: ByteBudgetStatistics
    requests: DirectionStatistics
    answers: DirectionStatistics
    spool: SpoolFigures


@dataclass(frozen=True, slots=True)
class RuleStatistics:
    """Every rule of one homeserver. `homeserver` is its key (§6.8), `modes` by rule, `profile` None while it is not known.

    `reported_total`: by reason, what would have been refused in report mode; `would_wait_total`: what would have stood in line.
    `figures` are all that the profile and the settings say together, by key, with where each came from (§8).
    """

    homeserver: str
    profile: str | None
    figures: Mapping[str, Figure]
    modes: Mapping[str, str]
    reported_total: Mapping[str, int]
    would_wait_total: int
    durations: DurationStatistics
    workers: ShareStatistics
    waits: WaitStatistics
    background: GateStatistics
    identity: IdentityStatistics
    bodies: BodyStatistics
    tunnels: TunnelStatistics
    pushers: PusherStatistics


@dataclass(frozen=True, slots=True)
class SettingsFigures:
    """When the settings were read last (seconds since the epoch), and what came of it.

    `mistakes`: why those of before hold; empty where what was read holds. `needs_restart`: keys whose value in the file takes
    effect at the next start.
    """

    read_at: float
    needs_restart: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All figures are since start or of now; durations in seconds, sizes in bytes.

    `answers_total`: the homeserver's, by route class and status class (`2xx`). `loop_lag_worst_s` is of the last
    minute. `listener`, `operators` and `egress` come from parts above, as they name them.
    """

    version: str
    started_at: float
    uptime_s: float
    stopping: bool
    settings: SettingsFigures
    homeserver: str
    connections: Mapping[str, int]
    connections_limit: int
    accepted_total: int
    requests_total: Mapping[str, int]
    answers_total: Mapping[str, Mapping[str, int]]
    refused_total: Mapping[str, int]
    left_total: int
    open_descriptors: int
    descriptor_limit: int
    loop_lag_s: float
    loop_lag_worst_s: float
    log_lines_lost_total: int
    trace_lines_lost_total: int
    pool: PoolStatistics
    rules: RuleStatistics
    listener: Mapping[str, Any] | None = None
    operators: Mapping[str, Mapping[str, int]] | None = None
    egress: Mapping[str, Any] | None = None
