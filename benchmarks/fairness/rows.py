"""The rows of the bench as data: what is beside the honest clients, and what is asked of a proxy then."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.fairness.addresses import SHARED_ADDRESS
from benchmarks.fairness.attacks import HOARDED_MS

_SHARE = 4  # workers a flow may hold in the generic profile
_QUARTER = 4  # workers of 16 that held ones take from the lane; the excess is only reported (section 4.6)


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    `most`: what the honest p99 may be: `times` its unattacked self, or that and `plus_ms`.
    `excess`: requests at the homeserver beyond its workers that section 4.6 explains: held ones beyond a quarter.
    `beside`: a crowd is honest too, none of it may be refused; a restart has the homeserver killed under such a crowd.
    """

    key: str
    title: str
    times: float = 2.0
    plus_ms: float = 0.0
    excess: int = 0
    shared_address: str | None = None
    beside: Literal["attack", "crowd", "restart"] = "attack"


ROWS = (
    Row("none", "none"),
    Row("slow-heads", "400 slow heads"),
    Row("slow-bodies", "64 slow bodies"),
    Row("tokenless-uploads", "16 x 50 MiB uploads without a token"),
    Row("idle", "4,000 idle connections"),
    Row("slow-readers", "64 slow readers of 5 MiB"),
    Row("abandoned", "abandoned 5 s requests, 32 at a time"),
    Row("one-address", "64 outstanding 300 ms requests, one address"),
    Row("one-account", "the same, one account over 64 addresses"),
    Row("same-address", "the same, from the honest clients' address", shared_address=SHARED_ADDRESS),
    Row("greedy-8", "8 greedy clients, 16 outstanding each", times=4.0),
    Row("greedy-32", "32 greedy clients, 8 outstanding each", times=1.0, plus_ms=HOARDED_MS),
    Row("long-polls", "64 long polls of one account, 64 addresses"),
    Row("new-tokens", "the same with a new token each"),
    Row("garbage", "64 clients with garbage tokens"),
    Row("pipelining", "64 connections pipelining without reading"),
    Row("churn", "1,000 connections a second, come and gone"),
    Row("stuck", "4 accounts with requests stuck for minutes"),
    Row("stuck-left", "the same, abandoned", excess=4 * _SHARE - _QUARTER),
    Row("app-starts", "200 accounts behind one address start their apps", beside="crowd"),
    Row("bridge", "a bridge with 1,000 ghosts on one token", beside="crowd"),
    Row("restart", "the homeserver restarts under 300 clients", beside="restart"),
)
