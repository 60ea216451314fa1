"""The rules' part of the status document."""

from collections.abc import Mapping
from math import isinf
from typing import Any

from proxy.mechanisms.byte_budget import ByteBudgetStatistics
from proxy.observability.durations import Histogram
from proxy.observability.snapshot import BodyStatistics, DirectionStatistics, RuleStatistics
from proxy.policies.outcomes import Outcome
from proxy.policies.tunnels import TunnelVerdict
from proxy.policies.wait_values import WaitStatistics, WaitVerdict
from proxy.policies.worker_statistics import LaneStatistics


def rule_status(rules: RuleStatistics) -> dict[str, Any]:
    """Give everything but the background gate, which `homeservers` lists (§6.8)."""
    share, identity, tunnels, pushers = rules.workers, rules.identity, rules.tunnels, rules.pushers
    return {
        "durations": {
            "wait": _durations(rules.durations.waits),
            "service": _durations(rules.durations.services),
        },
        "workers": {
            "active_flows": share.active_flows,
            "longest_service_seconds": share.longest_service_s,
            "worst_wait_ratio": max((lane.worst_wait_ratio for lane in share.lanes), default=0.0),
            "lanes": [_lane(lane) for lane in share.lanes],
        },
        "waits": _waits(rules.waits),
        "identity": {
            "tokens_known": identity.known,
            "tokens_refused": identity.refused,
            "lookups_running": identity.running,
            "lookups_queued": identity.queued,
            "requests_waiting": identity.waiting,
            "lookups_total": {
                "named": identity.named_total,
                "denied": identity.denied_total,
                "failed": identity.failed_total,
                "expired": identity.expired_total,
                "turned_away": identity.turned_away_total,
            },
        },
        "bodies": _bodies(rules.bodies),
        "tunnels": {
            "open": tunnels.open,
            "accounts": tunnels.accounts,
            "addresses": tunnels.addresses,
            "verdicts_total": {verdict.name.lower(): tunnels.verdicts[verdict] for verdict in TunnelVerdict},
        },
        "pushers": {
            "max_per_user": pushers.max_per_user,
            "in_turn": pushers.in_turn,
            "waiting": pushers.waiting,
            "accounts_known": pushers.known,
            "passed_total": pushers.totals.passed,
            "refused_total": pushers.totals.refused,
            "unlisted_total": pushers.totals.unlisted,
        },
    }


def homeserver_status(rules: RuleStatistics) -> dict[str, Any]:
    """Give the background gate as §6.8 names it."""
    gate = rules.background
    totals = gate.totals
    return {
        "key": rules.homeserver,
        "limit": gate.limit,
        "max_limit": gate.max_limit,
        "active": gate.active,
        "held": gate.held,
        "waiting": gate.waiting,
        "oldest_wait_seconds": gate.oldest_wait_s,
        "breaker": {
            "state": gate.state.name.lower(),
            "since_seconds": gate.since_s,
            "next_probe_seconds": gate.next_probe_in_s,
            "reopened": gate.reopened,
        },
        "requests_total": {
            "admitted": totals.admitted,
            "parked": totals.parked,
            "refused": totals.refused,
            "expired": totals.expired,
            "outside": totals.outside,
        },
        "outcomes_total": {outcome.name.lower(): totals.outcomes[outcome] for outcome in Outcome},
        "cuts_total": totals.cuts,
        "growths_total": totals.growths,
        "outages_total": totals.outages,
        "probes_total": totals.probes,
        "reports_heard_total": totals.reports_heard,
        "reports_unheard_total": totals.reports_unheard,
    }


def _durations(histograms: Mapping[str, Histogram]) -> dict[str, Any]:
    """Quantiles are bounds of buckets; null where nothing was seen, or it is beyond the last bound."""
    return {
        name: {
            "count": histogram.count,
            "sum_seconds": histogram.total_s,
            "p50_seconds": _finite(histogram.quantile_s(0.5)),
            "p99_seconds": _finite(histogram.quantile_s(0.99)),
        }
        for name, histogram in histograms.items()
    }


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or isinf(seconds) else seconds


def _lane(lane: LaneStatistics) -> dict[str, Any]:
    return {
        "name": lane.name,
        "workers": lane.workers,
        "running": lane.running,
        "held": lane.held,
        "held_beyond_quarter": lane.held_beyond_quarter,
        "waiting": lane.waiting,
        "oldest_wait_seconds": lane.oldest_wait_s,
        "worst_wait_ratio": lane.worst_wait_ratio,
        "granted_total": lane.granted_total,
        "parked_total": lane.parked_total,
        "refused_total": lane.refused_total,
        "expired_total": lane.expired_total,
    }


def _waits(waits: WaitStatistics) -> dict[str, Any]:
    totals = waits.totals
    return {
        "limit": waits.workers,
        "per_account": waits.per_account,
        "per_device": waits.per_device,
        "used": waits.used,
        "live": waits.live,
        "ghosts": waits.ghosts,
        "parked": waits.parked,
        "accounts": waits.accounts,
        "verdicts_total": {
            verdict.name.lower(): totals.verdicts[verdict]
            for verdict in WaitVerdict
            if verdict is not WaitVerdict.PARK
        },
        "parked_total": totals.parked,
        "outside_total": totals.outside,
        "ghosts_total": totals.ghosts,
        "ghosts_expired_total": totals.ghosts_expired,
    }


def _bodies(bodies: BodyStatistics) -> dict[str, Any]:
    sizes, spool = bodies.sizes, bodies.spool
    return {
        "max_json_bytes": sizes.json_bytes,
        "max_upload_bytes": sizes.upload_bytes,
        "max_upload_configured": sizes.configured,
        "media_config_asked_total": sizes.asked_total,
        "media_config_failed_total": sizes.failed_total,
        "token_refusals_relayed_total": bodies.relayed_total,
        "streaming_unconfirmed": bodies.streaming_unconfirmed,
        "memory": _budget(bodies.memory),
        "requests": _direction(bodies.requests),
        "answers": _direction(bodies.answers),
        "spool": {
            "open_files": spool.open_files,
            "disk_bytes": spool.disk_bytes,
            "operations_in_flight": spool.operations_in_flight,
            "written_bytes_total": spool.written_bytes_total,
            "read_bytes_total": spool.read_bytes_total,
            "failures_total": spool.failures_total,
        },
    }


def _direction(direction: DirectionStatistics) -> dict[str, Any]:
    return {
        "open": direction.open,
        "spooled_total": direction.spooled_total,
        "disk": _budget(direction.disk),
    }


def _budget(budget: ByteBudgetStatistics) -> dict[str, Any]:
    return {
        "limit_bytes": budget.total_bytes,
        "taken_bytes": budget.taken_bytes,
        "unconfirmed_bytes": budget.unconfirmed_bytes,
        "flows": budget.flows,
        "addresses": budget.addresses,
        "full_total": budget.refused_total,
    }
