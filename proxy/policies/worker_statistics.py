"""What the books of a fair share say, taken when somebody looks. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from heapq import nlargest

from proxy.mechanisms.attained_service import Flow
from proxy.policies.worker_pool import Lane, Pool


@dataclass(frozen=True, slots=True)
class LaneStatistics:
    """One lane now, and what happened in it since start. Durations in seconds.

    `held_beyond_quarter` workers are taken at the homeserver but count against nobody but their flow. `worst_wait_ratio`: the
    greatest of wait / promised bound in the last hour, over requests the promise holds for; more than 1 is a broken promise.
    """

    name: str
    workers: int
    running: int
    held: int
    held_beyond_quarter: int
    waiting: int
    oldest_wait_s: float
    granted_total: int
    parked_total: int
    refused_total: int
    expired_total: int
    worst_wait_ratio: float


@dataclass(frozen=True, slots=True)
class FlowStatistics:
    """One flow now; `worker_seconds` since it is remembered, at least ten minutes back unless many newcomers had more."""

    flow: Hashable
    lanes: tuple[str, ...]  # of its pool
    addresses: int  # that it is active from now; 0 where no rule of addresses applies
    running: int
    held: int
    waiting: int
    worker_seconds: float


@dataclass(frozen=True, slots=True)
class ShareStatistics:
    """All lanes in the order of their numbers, and the flows that had most."""

    lanes: tuple[LaneStatistics, ...]
    active_flows: int
    longest_service_s: float
    top_flows: tuple[FlowStatistics, ...]


def lane_statistics(lane: Lane, now: float) -> LaneStatistics:
    """Look at one lane; O(1)."""
    return LaneStatistics(
        name=lane.name,
        workers=lane.workers,
        running=lane.workers - lane.free - lane.held + lane.excess,
        held=lane.held,
        held_beyond_quarter=lane.excess,
        waiting=len(lane.parked),
        oldest_wait_s=now - next(iter(lane.parked)).asked_at if lane.parked else 0.0,
        granted_total=lane.granted_total,
        parked_total=lane.parked_total,
        refused_total=lane.refused_total,
        expired_total=lane.expired_total,
        worst_wait_ratio=lane.worst_ratio.value(now),
    )


def top_flows(pools: list[Pool], most: int, now: float) -> tuple[FlowStatistics, ...]:
    """Give the flows that had most worker-seconds; O(flows and addresses remembered)."""
    everyone = [
        (flow.worker_seconds(now), index, flow)
        for index, pool in enumerate(pools)
        for flow in pool.flows.values()
    ]
    top = nlargest(most, everyone, key=lambda ranked: ranked[0])
    addresses: dict[Flow, int] = dict.fromkeys((flow for _, _, flow in top), 0)
    for pool in pools:
        for source in pool.sources.values():
            for flow in source.flows:
                if flow in addresses:
                    addresses[flow] += 1
    return tuple(
        FlowStatistics(
            flow=flow.key,
            lanes=tuple(lane.name for lane in pools[index].lanes),
            addresses=addresses[flow],
            running=flow.holds - flow.held,
            held=flow.held,
            waiting=flow.waiting,
            worker_seconds=seconds,
        )
        for seconds, index, flow in top
    )
