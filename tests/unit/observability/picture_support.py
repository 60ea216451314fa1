"""A snapshot with a different number in every place, made from real parts."""

import itertools
from dataclasses import fields, is_dataclass, replace

from proxy.identity.identities import IdentityStatistics
from proxy.matrix.profiles import Figure
from proxy.mechanisms.breaker import BreakerState
from proxy.mechanisms.byte_budget import ByteBudgetStatistics
from proxy.observability.durations import BOUNDS_S, DurationStatistics, Histogram
from proxy.observability.snapshot import (
    BodyStatistics,
    DirectionStatistics,
    PoolStatistics,
    RuleStatistics,
    SettingsFigures,
    Snapshot,
    SpoolFigures,
)
from proxy.policies.body_size import BodySizeStatistics
from proxy.policies.gate_values import GateStatistics, GateTotals
from proxy.policies.outcomes import Outcome
from proxy.policies.pusher_cap import PusherStatistics, PusherTotals
from proxy.policies.tunnels import TunnelStatistics, TunnelVerdict
from proxy.policies.wait_values import WaitStatistics, WaitTotals, WaitVerdict
from proxy.policies.worker_statistics import LaneStatistics, ShareStatistics

_numbers = itertools.count(1000)


def number():
    return next(_numbers)


def made(kind, **given):
    """One of `kind` with a number in each field that is not given."""
    return kind(**{field.name: number() for field in fields(kind) if field.name not in given} | given)


def histogram():
    return Histogram(tuple(number() for _ in range(len(BOUNDS_S) + 1)), number() + 0.5)


def direction():
    return made(DirectionStatistics, disk=made(ByteBudgetStatistics))


def rules(**given):
    return RuleStatistics(
        **{
            "homeserver": "http://127.0.0.1:8008",
            "profile": "synapse",
            "figures": {"sync.workers": Figure(number(), "profile")},
            "modes": {"lanes": "enforce", "sync": "report"},
            "reported_total": {"sync_total": number()},
            "would_wait_total": number(),
            "durations": DurationStatistics({"requests": histogram()}, {"requests": histogram()}),
            "workers": made(ShareStatistics, lanes=(made(LaneStatistics, name="requests"),), top_flows=()),
            "waits": made(
                WaitStatistics,
                totals=made(WaitTotals, verdicts=[number() for _ in WaitVerdict]),
            ),
            "background": made(
                GateStatistics,
                state=BreakerState.REFUSING,
                totals=made(GateTotals, outcomes=[number() for _ in Outcome]),
            ),
            "identity": made(IdentityStatistics),
            "bodies": BodyStatistics(
                sizes=made(BodySizeStatistics, configured=True),
                relayed_total=number(),
                streaming_unconfirmed=number(),
                memory=made(ByteBudgetStatistics),
                requests=direction(),
                answers=direction(),
                spool=made(SpoolFigures),
            ),
            "tunnels": made(TunnelStatistics, verdicts=tuple(number() for _ in TunnelVerdict)),
            "pushers": made(PusherStatistics, totals=made(PusherTotals)),
        }
        | given
    )


POOL = made(PoolStatistics, failing_since_s=None)
SNAPSHOT = made(
    Snapshot,
    version="0.1.0",
    stopping=False,
    settings=SettingsFigures(number(), ("admin.listen",)),
    homeserver="http://127.0.0.1:8008",
    connections={"parked": number(), "open": number()},
    requests_total={"vital": number(), "requests": number()},
    answers_total={"vital": {"2xx": number(), "5xx": number()}},
    refused_total={"head_too_large": number()},
    loop_lag_s=0.001,
    pool=POOL,
    rules=rules(),
    listener=None,
    operators=None,
    egress=None,
)


def with_rules(**given):
    return replace(SNAPSHOT, rules=replace(SNAPSHOT.rules, **given))


def figures_in(value, path=""):
    """Every number with the path of fields that leads to it."""
    if is_dataclass(value):
        for field in fields(value):
            yield from figures_in(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from figures_in(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from figures_in(inner, f"{path}.{index}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
