"""What a row's figures say: pure.

Success is served/sent of each kind of honest client; percentiles are of the served ones, by the nearest rank. A row is passed
if every honest request was served, the p99 of the light ones stays within the row's limit, a crowd was refused nothing (told of
no limit either while there was no homeserver), and if the homeserver had no more at once than the promise allows and nothing of
an upload without a token. `disturbed` tells of windows that say nothing, for the machine was busy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.fairness.rows import Row

KINDS = ("light", "sync", "upload")
_MAX_LOOKUPS = 16
_MIB = 1 << 20
_DISTURBED_LATE_MS = 5.0  # a client's own watch went off that late: others had the core
_DISTURBED_SPREAD = 3.0  # a p99 that far above the median is no base for a ratio


@dataclass(frozen=True, slots=True)
class Watched:
    """The honest clients within one window."""

    success: Mapping[str, float]
    p50_ms: float
    p99_ms: float
    max_ms: float
    samples: int
    late_p99_ms: float
    failures: Mapping[str, int]

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> "Watched":
        """Sum up what `honest.py` tells."""
        served, failures = figures["ms"], figures["failures"]
        success = {}
        for kind in KINDS:
            good = len(served.get(kind, ()))
            bad = sum(number for what, number in failures.items() if what.split(" ")[0] == kind)
            success[kind] = good / (good + bad) if good + bad else 0.0
        light = served.get("light", ())
        return cls(
            success,
            percentile(light, 50),
            percentile(light, 99),
            max(light, default=math.nan),
            len(light),
            percentile(figures["late_ms"], 99),
            failures,
        )

    def served_all(self) -> bool:
        """Tell whether every request of each kind was served."""
        return all(share == 1 for share in self.success.values())


@dataclass(frozen=True, slots=True)
class Bound:
    """What a proxy may have at the homeserver at once; it lets no byte of an upload through for who has no token."""

    requests: int
    syncs: int
    lookups: int = _MAX_LOOKUPS


def percentile(values: Sequence[float], percent: float) -> float:
    """Give the nearest-rank percentile; NaN of nothing."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def disturbed(base: Watched, attacked: Watched) -> bool:
    """Tell whether the machine was busy with others: the base is none to compare with, or clients' own watches were late."""
    late_ms = max(base.late_p99_ms, attacked.late_p99_ms)
    return not (
        base.served_all() and base.p99_ms <= _DISTURBED_SPREAD * base.p50_ms and late_ms <= _DISTURBED_LATE_MS
    )


def allowed_ms(row: Row, base: Watched) -> float:
    """Give what the honest p99 may be in a row."""
    return base.p99_ms * row.times + row.plus_ms


def faults(
    row: Row,
    base: Watched,
    attacked: Watched,
    crowd: Mapping[str, int],
    outage: Mapping[str, Any] | None,
    homeserver: Mapping[str, Any],
    bound: Bound | None,
) -> list[str]:
    """List what misses the promise; empty means passed."""
    found = [f"{kind} {share:.3f}" for kind, share in attacked.success.items() if share < 1]
    limit = allowed_ms(row, base)
    if not attacked.p99_ms <= limit:  # also where nothing was served and it is NaN
        found.append(f"p99 {attacked.p99_ms:.1f} > {limit:.1f} ms")
    if row.beside != "attack":
        bad = {what: number for what, number in crowd.items() if what != "200"}
        found += [f"crowd: {number} x {what}" for what, number in sorted(bad.items())]
    if outage is not None:
        told = [*outage["crowd"].items(), *outage["honest_failures"].items()]
        if limited := sum(number for what, number in told if what.endswith("429")):
            found.append(f"{limited} x 429 while there was no homeserver")
    if bound is not None:
        limits = {"requests": bound.requests + row.excess, "syncs": bound.syncs, "lookups": bound.lookups}
        for pool, most in limits.items():
            seen = homeserver[pool]["most_at_once"]
            if seen > most:
                found.append(f"{seen} {pool} at once > {most}")
        if through := homeserver["unconfirmed_upload_bytes"]:
            found.append(f"{through / _MIB:.1f} MiB of unconfirmed uploads came through")
    return found
