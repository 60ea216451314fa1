"""Who has what: the rows of `/v1/flows`, of the log's top flows and of `explain`; the only views that name a person."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass
from heapq import nlargest
from typing import Any, Final

from proxy.pipeline import Pipeline

ORDERS: Final = ("worker_seconds", "waiting", "waits", "refused", "kept_bytes")
MOST: Final = 1000
_ALL: Final = 1 << 30


@dataclass(slots=True)
class FlowRow:
    """One flow: `running`, `held` and `waiting` (in line) for workers, `waits` and `ghosts` of long polls.

    `kept_bytes` of its bodies and answers are in memory and spools now; what was moved nobody counts by flow.
    `worker_seconds` since it is remembered, ten minutes at least. `refused` since start, at most `refused_error` too high.
    """

    flow: str
    kind: str
    lanes: tuple[str, ...] = ()
    worker_seconds: float = 0.0
    running: int = 0
    held: int = 0
    waiting: int = 0
    addresses: int = 0
    waits: int = 0
    ghosts: int = 0
    refused: int = 0
    refused_error: int = 0
    kept_bytes: int = 0


def kind_of(flow: str) -> str:
    """Tell what a flow's name stands for."""
    if flow.startswith("@"):
        return "account"
    return "appservice" if flow.startswith("appservice ") else "address"


def flow_rows(pipeline: Pipeline, now: float) -> dict[str, FlowRow]:
    """Give all flows of which anything is known; O(flows and addresses remembered)."""
    rows: dict[str, FlowRow] = {}

    def row(name: Hashable) -> FlowRow:
        flow = str(name)
        found = rows.get(flow)
        if found is None:
            found = rows[flow] = FlowRow(flow, kind_of(flow))
        return found

    for flow in pipeline.gates.workers.share.statistics(now, most_flows=_ALL).top_flows:
        one = row(flow.flow)
        one.lanes += flow.lanes if flow.running or flow.held or flow.waiting else ()
        one.worker_seconds += flow.worker_seconds
        one.running += flow.running
        one.held += flow.held
        one.waiting += flow.waiting
        one.addresses = max(one.addresses, flow.addresses)
    for account, (live, ghosts) in pipeline.gates.waits.budgets.by_account().items():
        one = row(account)
        one.waits, one.ghosts = live, ghosts
    for hitter in pipeline.recorder.refused_flows.top(MOST):
        one = row(hitter.name)
        one.refused, one.refused_error = hitter.times, hitter.error
    bodies = pipeline.bodies
    for budget in (bodies.requests.memory, bodies.requests.disk, bodies.answers.disk):
        for flow_name, taken in budget.by_flow().items():
            row(flow_name).kept_bytes += taken
    return rows


def top_rows(rows: Iterable[FlowRow], by: str, top: int) -> list[dict[str, Any]]:
    """Give the `top` rows with most of `by`, one of ORDERS, as JSON can hold them; without those that have nothing of it."""
    rank: Callable[[FlowRow], float] = _RANKS[by]
    return [asdict(row) for row in nlargest(top, rows, key=rank) if rank(row) > 0]


_RANKS: Final[dict[str, Callable[[FlowRow], float]]] = {
    "worker_seconds": lambda row: row.worker_seconds,
    "waiting": lambda row: row.waiting,
    "waits": lambda row: row.waits + row.ghosts,
    "refused": lambda row: row.refused,
    "kept_bytes": lambda row: row.kept_bytes,
}
