"""The rules of one homeserver as Prometheus metrics."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from proxy.identity.identities import IdentityStatistics
from proxy.mechanisms.breaker import BreakerState
from proxy.observability.families import counter, counters, gauge, gauges, histograms
from proxy.observability.snapshot import BodyStatistics, RuleStatistics
from proxy.policies.gate_values import GateStatistics
from proxy.policies.outcomes import Outcome
from proxy.policies.tunnels import TunnelStatistics, TunnelVerdict
from proxy.policies.wait_values import WaitStatistics, WaitVerdict
from proxy.policies.worker_statistics import ShareStatistics


def rule_metrics(rules: RuleStatistics) -> Iterator[Metric]:
    """Yield all of them."""
    yield gauges(
        "profile_info",
        "1, with the homeserver's profile as a label.",
        "profile",
        {rules.profile or "unknown": 1},
    )
    yield gauges(
        "rule_enforced",
        "1 where a rule is enforced, 0 where it only reports.",
        "rule",
        {rule: float(mode == "enforce") for rule, mode in rules.modes.items()},
    )
    yield histograms(
        "request_wait_seconds",
        "Seconds requests waited for a worker, by route class.",
        "route_class",
        rules.durations.waits,
    )
    yield histograms(
        "request_service_seconds",
        "Seconds from sending a request to the homeserver to the end of its answer, by route class.",
        "route_class",
        rules.durations.services,
    )
    yield counter(
        "would_wait",
        "Requests that would have stood in line for a worker, had it been enforced.",
        rules.would_wait_total,
    )
    yield from _workers(rules.workers)
    yield from _waits(rules.waits)
    yield from _background(rules.background)
    yield from _identity(rules.identity)
    yield from _bodies(rules.bodies)
    yield from _tunnels(rules.tunnels)
    pushers = rules.pushers
    yield gauge("pushers_limit", "Pushers one account may have.", pushers.max_per_user)
    yield gauge("pusher_requests_waiting", "Registrations waiting for their account's turn.", pushers.waiting)
    yield counters(
        "pusher_requests",
        "Registrations of pushers by what was decided; unlisted passed since no list was known.",
        "outcome",
        {
            "passed": pushers.totals.passed,
            "refused": pushers.totals.refused,
            "unlisted": pushers.totals.unlisted,
        },
    )


def _workers(share: ShareStatistics) -> Iterator[Metric]:
    for name, text, field in (
        ("lane_workers", "Workers of a lane, or its ceiling in the pool.", "workers"),
        ("lane_running", "Workers of a lane that run a request whose client waits.", "running"),
        ("lane_held", "Workers of a lane still taken although nobody waits for the answer.", "held"),
        (
            "lane_held_beyond_quarter",
            "Held workers over a quarter of the lane, which count against their flow only.",
            "held_beyond_quarter",
        ),
        ("lane_waiting_requests", "Requests in line for a worker of a lane.", "waiting"),
        ("lane_oldest_wait_seconds", "How long the oldest in a lane's line has waited.", "oldest_wait_s"),
        (
            "lane_wait_bound_ratio",
            "The greatest wait of the last hour, divided by what was promised; above 1 the promise was broken.",
            "worst_wait_ratio",
        ),
    ):
        yield gauges(name, text, "lane", {lane.name: getattr(lane, field) for lane in share.lanes})
    for name, text, field in (
        ("lane_granted", "Requests that got a worker.", "granted_total"),
        ("lane_parked", "Requests that had to wait for a worker.", "parked_total"),
        ("lane_refused", "Requests refused since the line was full.", "refused_total"),
        ("lane_expired", "Requests that waited in line as long as they may.", "expired_total"),
    ):
        yield counters(name, text, "lane", {lane.name: getattr(lane, field) for lane in share.lanes})
    yield gauge("active_flows", "Flows with something in line or in service.", share.active_flows)
    yield gauge("longest_service_seconds", "The longest service of the last hour.", share.longest_service_s)


def _waits(waits: WaitStatistics) -> Iterator[Metric]:
    states = {"live": waits.live, "ghost": waits.ghosts, "parked": waits.parked}
    yield gauges("waits", "Long polls by state; a ghost's client is gone.", "state", states)
    yield gauge("waits_used", "Long polls that count against the limit in all.", waits.used)
    yield gauge("waits_limit", "Long polls allowed at once in all (sync.workers).", waits.workers)
    yield gauge("waits_per_account_limit", "Long polls one account may have.", waits.per_account)
    yield gauge("waits_per_device_limit", "Long polls one device may have.", waits.per_device)
    yield gauge("waits_accounts", "Accounts, or addresses, with a long poll.", waits.accounts)
    verdicts = {
        verdict.name.lower(): waits.totals.verdicts[verdict]
        for verdict in WaitVerdict
        if verdict is not WaitVerdict.PARK
    }
    yield counters(
        "waits_judged", "Long polls by verdict: admitted, or the budget that was spent.", "verdict", verdicts
    )
    yield counter(
        "waits_parked", "Long polls that waited for a place of their device first.", waits.totals.parked
    )
    yield counter("waits_ghosts", "Long polls whose client left before they ended.", waits.totals.ghosts)


def _background(gate: GateStatistics) -> Iterator[Metric]:
    yield gauge("background_limit", "Background requests allowed at once now.", gate.limit)
    yield gauge(
        "background_limit_max", "The most that the limit of background requests grows to.", gate.max_limit
    )
    places = {"active": gate.active, "held": gate.held}
    yield gauges("background_places", "Places of the background gate by state.", "state", places)
    yield gauge("background_waiting_requests", "Background requests that wait for a place.", gate.waiting)
    yield gauge(
        "background_oldest_wait_seconds",
        "How long the oldest waiting background request has waited.",
        gate.oldest_wait_s,
    )
    yield gauges(
        "background_breaker_state",
        "1 for the state the background breaker is in.",
        "state",
        {state.name.lower(): float(state is gate.state) for state in BreakerState},
    )
    yield gauge(
        "background_breaker_since_seconds",
        "Seconds since the background breaker's last change.",
        gate.since_s,
    )
    totals = gate.totals
    yield counters(
        "background_requests",
        "Background requests by verdict; outside ran all the same, in report mode.",
        "verdict",
        {
            "admitted": totals.admitted,
            "parked": totals.parked,
            "refused": totals.refused,
            "expired": totals.expired,
            "outside": totals.outside,
        },
    )
    yield counter("background_cuts", "Times the limit of background requests was halved.", totals.cuts)
    yield counter("background_outages", "Times the background breaker began to refuse.", totals.outages)
    yield counter("background_probes", "Probes of the background breaker sent.", totals.probes)
    yield counters(
        "background_outcomes",
        "How background requests ended, as the gate sees it.",
        "outcome",
        {outcome.name.lower(): totals.outcomes[outcome] for outcome in Outcome},
    )


def _identity(identity: IdentityStatistics) -> Iterator[Metric]:
    tokens = {"known": identity.known, "refused": identity.refused}
    yield gauges("tokens", "Access tokens remembered, as a hash.", "state", tokens)
    lookups = {"running": identity.running, "queued": identity.queued}
    yield gauges("lookups", "Questions to the homeserver whose a token is.", "state", lookups)
    yield gauge(
        "lookup_waiting_requests",
        "Requests that wait until it is known whose their token is.",
        identity.waiting,
    )
    yield counters(
        "lookups_done",
        "Look-ups by what came of them.",
        "outcome",
        {
            "named": identity.named_total,
            "denied": identity.denied_total,
            "failed": identity.failed_total,
            "expired": identity.expired_total,
            "turned_away": identity.turned_away_total,
        },
    )


def _bodies(bodies: BodyStatistics) -> Iterator[Metric]:
    memory, spool = bodies.memory, bodies.spool
    both = {"request": bodies.requests, "answer": bodies.answers}
    yield gauge("buffer_bytes", "Memory that bodies and answers take.", memory.taken_bytes)
    yield gauge("buffer_limit_bytes", "Memory that bodies and answers may take.", memory.total_bytes)
    yield counter("buffer_full", "Times the memory, or someone's part of it, was full.", memory.refused_total)
    open_now = {direction: stores.open for direction, stores in both.items()}
    yield gauges("bodies_kept", "Bodies and answers that are kept now.", "direction", open_now)
    spooled = {direction: stores.spooled_total for direction, stores in both.items()}
    yield gauge(
        "bodies_streaming_unconfirmed",
        "Bodies without an account that hold a worker while they come: they cannot be kept.",
        bodies.streaming_unconfirmed,
    )
    yield counters("bodies_spooled", "Bodies and answers that went to disk.", "direction", spooled)
    taken = {direction: stores.disk.taken_bytes for direction, stores in both.items()}
    yield gauges("spool_bytes", "Bytes of the spool that are taken.", "direction", taken)
    limits = {direction: stores.disk.total_bytes for direction, stores in both.items()}
    yield gauges("spool_limit_bytes", "Bytes of the spool there are.", "direction", limits)
    full = {direction: stores.disk.refused_total for direction, stores in both.items()}
    yield counters("spool_full", "Times the spool, or someone's part of it, was full.", "direction", full)
    yield gauge("spool_files", "Spool files that are open.", spool.open_files)
    yield gauge("spool_operations", "Disk operations in flight.", spool.operations_in_flight)
    yield counter("spool_written_bytes", "Bytes written to spool files.", spool.written_bytes_total)
    yield counter("spool_read_bytes", "Bytes read from spool files.", spool.read_bytes_total)
    yield counter("spool_failures", "Disk operations that failed.", spool.failures_total)
    yield counter(
        "token_refusals_relayed",
        "Large bodies answered with the homeserver's own refusal of their token.",
        bodies.relayed_total,
    )


def _tunnels(tunnels: TunnelStatistics) -> Iterator[Metric]:
    yield gauge("tunnels", "Websockets open.", tunnels.open)
    verdicts = {verdict.name.lower(): tunnels.verdicts[verdict] for verdict in TunnelVerdict}
    yield counters("tunnels_judged", "Websockets by verdict.", "verdict", verdicts)
