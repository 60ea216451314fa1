"""The books of a fair share: a pool of workers, its lanes, and a request's ticket. The rules are in `worker_share.py`.

A lane's free workers are its workers less running less held ones, of which `excess_of` says how many count; the same for the
pool. They can be negative: what runs by `take`, or ran before the figures were lowered, counts all the same. Pure.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from proxy.mechanisms.attained_service import Flow, Level, Source, forget_idle_flows, forget_idle_sources
from proxy.mechanisms.fair_queue import Claim, FairQueue
from proxy.mechanisms.most_waiting import MostWaiting
from proxy.mechanisms.recent_maximum import RecentMaximum

# A ticket's states. Legal next: ASKED → WAITING, RUNNING · WAITING → RUNNING, ENDED · RUNNING → HELD, ENDED · HELD → ENDED.
ASKED: Final = 0  # made, or refused by `ask`
WAITING: Final = 1
RUNNING: Final = 2
HELD: Final = 3
ENDED: Final = 4

REMEMBERED: Final = (
    1024  # idle flows, and idle sources, whose records are kept at most when records are dropped
)
UNLIMITED: Final = 1 << 60  # more workers than there are
LATELY_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class LaneRule:
    """The figures of one lane.

    `workers` its own places, or its ceiling in the pool; `share` of the pool's workers for one flow (a fraction);
    `max_wait_s` how long a request stays in line; `line` places in it; `guaranteed` workers that it is served up to before
    all others when it asks; `history_per_flow` history reads of one flow at a time, None for no limit. Source: behaviour.md §4.
    """

    name: str
    workers: int
    share: float
    max_wait_s: float
    line: int
    guaranteed: int = 0
    history_per_flow: int | None = None


@dataclass(frozen=True, slots=True)
class PoolRule:
    """Workers and the lanes that share them: one lane, where each has its own."""

    workers: int
    lanes: tuple[LaneRule, ...]


def flow_cap(pool_workers: int, share: float) -> int:
    """Give how many of a pool's workers one flow may have in a lane, which may itself have fewer."""
    return max(1, int(pool_workers * share))


class Ticket(Claim):
    """One request's claim to a worker of a lane.

    `flow` whom it is charged to; `address` where it comes from; `owner` whatever the caller wants to find again.
    `confirmed`: the flow is a confirmed account. `exempt`: no limit per flow or address. `address_capped` False: no rule
    about addresses.
    """

    __slots__ = (
        "address",
        "address_capped",
        "asked_at",
        "confirmed",
        "exempt",
        "flow",
        "flow_record",
        "history",
        "lane",
        "lane_record",
        "others",
        "owner",
        "started_at",
        "state",
    )

    flow_record: Flow
    lane_record: "Lane"
    asked_at: float
    started_at: float
    others: int  # other flows active when it was parked; -1 where the promise on waits does not hold for it

    def __init__(
        self,
        lane: int,
        flow: Hashable,
        address: Hashable,
        owner: object,
        *,
        confirmed: bool,
        exempt: bool = False,
        address_capped: bool = True,
        history: bool = False,
    ) -> None:
        self.lane = lane
        self.flow = flow
        self.address = address
        self.owner = owner
        self.confirmed = confirmed
        self.exempt = exempt
        self.address_capped = address_capped
        self.history = history
        self.state = ASKED


def excess_of(held: int, workers: int) -> int:
    """Give how many held workers do not count against a lane or pool of so many: those beyond a quarter, at most all `workers`.

    So running and held ones are twice the workers at most, which is what connections are provided for (ADR 24).
    """
    return min(max(0, held - workers // 4), workers)


class Pool:
    """Workers that lanes share, and the records of who asked for them."""

    __slots__ = (
        "active",
        "contended",
        "excess",
        "flows",
        "free",
        "held",
        "lanes",
        "level",
        "longest",
        "next_drop_of_flows",
        "next_drop_of_sources",
        "source_cap",
        "sources",
        "waiting",
        "workers",
    )

    def __init__(self, rule: PoolRule, max_lead_s: float, now: float) -> None:
        self.workers = self.free = 0
        self.held = self.excess = 0  # `excess`: of those held, taken at the homeserver but free in the books
        self.source_cap = 1
        self.waiting = 0
        self.active = 0  # flows with something in line or in service
        self.contended = False  # somebody without a worker waits and none was free since
        self.flows: dict[Hashable, Flow] = {}
        self.sources: dict[Hashable, Source] = {}
        self.level = Level(max_lead_s)
        self.longest = RecentMaximum(LATELY_S, now)
        self.next_drop_of_flows = self.next_drop_of_sources = 2 * REMEMBERED
        self.lanes = [Lane(lane, self, index, now) for index, lane in enumerate(rule.lanes)]

    def resize(self, workers: int, address_share: float) -> None:
        """Take other figures; what runs and is held stays counted."""
        taken = self.workers - self.free + self.excess
        self.workers = workers
        self.excess = excess_of(self.held, workers)
        self.free = workers - taken + self.excess
        self.source_cap = max(1, int(workers * address_share))

    def turn_s(self) -> float:
        """Give what a flow's even share of the workers comes to while one request of average length runs."""
        ended = sum(lane.ended for lane in self.lanes)
        if not ended:
            return 0.0
        return (
            sum(lane.service_s for lane in self.lanes) / ended * min(1.0, self.workers / max(1, self.active))
        )

    def new_flow(self, key: Hashable, now: float) -> Flow:
        """Make the record of a flow that is not remembered."""
        if len(self.flows) >= self.next_drop_of_flows:
            forget_idle_flows(self.flows, REMEMBERED, now)
            self.next_drop_of_flows = len(self.flows) + REMEMBERED
        flow = self.flows[key] = Flow(key)
        return flow

    def new_source(self, key: Hashable) -> Source:
        """Make the record of an address that is not remembered."""
        if len(self.sources) >= self.next_drop_of_sources:
            forget_idle_sources(self.sources, REMEMBERED, self.level)
            self.next_drop_of_sources = len(self.sources) + REMEMBERED
        source = self.sources[key] = Source(key, len(self.lanes))
        return source


class Lane:
    """One kind of request: a pool of its own, or a ceiling in a shared one."""

    __slots__ = (
        "bounded",
        "ended",
        "excess",
        "expired_total",
        "flow_cap",
        "free",
        "granted_total",
        "guaranteed",
        "held",
        "history_cap",
        "index",
        "line",
        "max_wait_s",
        "most",
        "name",
        "parked",
        "parked_total",
        "pool",
        "queue",
        "refused_total",
        "service_s",
        "source_cap",
        "workers",
        "worst_ratio",
    )

    def __init__(self, rule: LaneRule, pool: Pool, index: int, now: float) -> None:
        self.name = rule.name
        self.pool = pool
        self.index = index
        self.workers = self.free = 0
        self.held = self.excess = 0
        self.queue: FairQueue[Ticket] = FairQueue(pool.level, index)
        self.parked: OrderedDict[Ticket, None] = OrderedDict()  # by age: all wait equally long at most
        self.most: MostWaiting[Flow] = MostWaiting()
        self.worst_ratio = RecentMaximum(LATELY_S, now)
        self.ended = 0
        self.service_s = 0.0
        self.granted_total = self.parked_total = self.refused_total = self.expired_total = 0

    def resize(self, rule: LaneRule, address_share: float) -> None:
        """Take other figures, the pool's first; what runs and is held stays counted."""
        taken = self.workers - self.free + self.excess
        workers = min(rule.workers, self.pool.workers)
        self.workers = workers
        self.excess = excess_of(self.held, workers)
        self.free = workers - taken + self.excess
        self.flow_cap = flow_cap(self.pool.workers, rule.share)
        self.source_cap = max(1, int(workers * address_share))
        self.bounded = len(self.pool.lanes) > 1
        self.guaranteed = rule.guaranteed
        self.history_cap = UNLIMITED if rule.history_per_flow is None else rule.history_per_flow
        self.line = rule.line
        self.max_wait_s = rule.max_wait_s
        queue = self.queue
        queue.flow_cap = self.flow_cap
        queue.history_cap = self.history_cap
        queue.source_cap = self.pool.source_cap
        queue.source_lane_cap = self.source_cap if self.bounded else UNLIMITED

    def below_guarantee(self) -> bool:
        """Tell whether it is served before all others now."""
        return self.workers - self.free < self.guaranteed

    def mean_service_s(self) -> float:
        """Give how long its requests hold a worker, lately; a second where none ended yet."""
        if self.ended >= 1024:  # the past counts half from here on
            self.ended //= 2
            self.service_s /= 2
        return self.service_s / self.ended if self.ended else 1.0
