"""The line of one lane: whose turn it is, by what each has had.

A flow may take one more worker if it holds fewer than are free and fewer than its cap; its source, if that holds fewer than its
own. Of those who may, the one with the least `max(flow's figure, source's figure)` is first; then the least flow's figure, then
the oldest request. Within a queue, one flow's requests of one kind, it is oldest first.

Two levels of heaps keep that O(log n) amortised. A *bundle* is the queues of one source whose flows hold equally many workers:
their figures grow alike, so their order never changes. Bundles are ranked, again by what the flows hold, so that those who hold
too many for what is free are not looked at. A bundle's rank is a lower bound, made exact when it comes up: figures only grow
while somebody waits. Only bundles whose flow or source holds something grow, so at most as many ranks as there are workers are
out of date at a time, however many wait. Queues without a source (exempt from its rules) have bundles of their own. Pure.
"""

from collections import OrderedDict
from itertools import count
from typing import Any, Generic, TypeVar

from proxy.mechanisms.attained_service import Flow, Level, Source
from proxy.mechanisms.lazy_heap import LazyHeap


class Claim:
    """What can be in line: where it comes from (None: no rule of sources applies), and a number that grows with age."""

    __slots__ = ("number", "queue", "source")

    number: int
    source: Source | None
    queue: "Queue[Any]"


C = TypeVar("C", bound=Claim)


class Queue(Generic[C]):
    """Requests of one flow in one lane that may run under the same conditions, oldest first."""

    __slots__ = ("bundle", "claims", "code", "entry", "exempt", "flow", "history", "lane")

    def __init__(self, flow: Flow, lane: "FairQueue[C]", code: int, *, history: bool, exempt: bool) -> None:
        self.flow = flow
        self.lane = lane
        self.code = code
        self.history = history
        self.exempt = exempt
        self.claims: OrderedDict[C, None] = OrderedDict()
        self.bundle: Bundle[C] | None = None
        self.entry: tuple[Any, ...] | None = None

    def head(self) -> C:
        """Give the oldest."""
        return next(iter(self.claims))


_bundle_numbers = count()


class Bundle(Generic[C]):
    """Queues of one source whose flows hold equally many workers."""

    __slots__ = ("entry", "key", "lane", "number", "queues")

    def __init__(self, lane: "FairQueue[C]", key: tuple[Source | None, int]) -> None:
        self.lane = lane
        self.key = key
        self.number = next(_bundle_numbers)  # so that no two entries compare equal
        self.queues: LazyHeap[Queue[C]] = LazyHeap()
        self.entry: tuple[Any, ...] | None = None


# Who is next: the greater figure, the flow's, the request's number, and its queue. The least is first; numbers are never equal.
Turn = tuple[float, float, int, Queue[C]]


class FairQueue(Generic[C]):
    """The line of one lane. Limits are plain attributes, to be set before use and followed by `rebuild` when they change."""

    def __init__(self, level: Level, index: int) -> None:
        self.index = index  # of the lane among those that share its workers
        self.flow_cap = 1
        self.history_cap = 0
        self.source_cap = 1  # over all lanes that share the workers
        self.source_lane_cap = 1
        self._level = level
        self._bundles: dict[tuple[Source | None, int], Bundle[C]] = {}
        self._by_holds: dict[int, LazyHeap[Bundle[C]]] = {}

    def source_is_full(self, source: Source) -> bool:
        """Tell whether all that `source` may hold is held."""
        return source.holds >= self.source_cap or source.by_lane[self.index] >= self.source_lane_cap

    def post(self, queue: Queue[C], now: float) -> None:
        """Rank a queue by its head and by what its flow holds; to be called when either changed, and for a new queue."""
        flow = queue.flow
        if queue.history and flow.history >= self.history_cap:
            self.remove(queue)
            return
        head = queue.head()
        # Exempt queues wait for any free worker, whatever their flow holds: negative keys, so that rates can be read off them.
        key = (head.source, -1 - flow.holds if queue.exempt else flow.holds)
        bundle = self._bundles.get(key)
        if bundle is None:
            bundle = self._bundles[key] = Bundle(self, key)
        if queue.bundle is not bundle:
            self.remove(queue)
            queue.bundle = bundle
        bundle.queues.push(queue, (flow.spent_s - flow.zero_s, head.number, queue))
        self.repost(bundle, now)

    def repost(self, bundle: Bundle[C], now: float) -> None:
        """Rank a bundle, if that is lower than it was or it was not ranked."""
        turn = self._turn(bundle, now)
        if turn is None:
            return
        rank = turn[:3]
        if bundle.entry is None or rank < bundle.entry[:3]:
            key = bundle.key[1]
            ranked = self._by_holds.get(key)
            if ranked is None:
                ranked = self._by_holds[key] = LazyHeap()
            ranked.push(bundle, (*rank, bundle.number, bundle))

    def remove(self, queue: Queue[C]) -> None:
        """Take a queue out: empty, or to be passed over until it is posted again."""
        bundle = queue.bundle
        if bundle is None:
            return
        queue.bundle = None
        bundle.queues.drop(queue)
        if not bundle.queues:
            del self._bundles[bundle.key]
            if bundle.entry is not None:
                self._by_holds[bundle.key[1]].drop(bundle)

    def first(self, free: int, now: float) -> Turn[C] | None:
        """Give who may take a free worker and is first, None if nobody may. A flow needs more in `free` than it holds."""
        best: Turn[C] | None = None
        emptied = -1
        for key, ranked in self._by_holds.items():
            if key > 0 and (key >= free or key >= self.flow_cap):
                continue
            turn = self._first_of(ranked, now)
            if turn is None:
                emptied = key
            elif best is None or turn < best:
                best = turn
        if emptied != -1 and not self._by_holds[emptied]:
            del self._by_holds[emptied]
        return best

    def rebuild(self, queues: list[Queue[C]], now: float) -> None:
        """Rank all anew, under other limits."""
        self._bundles.clear()
        self._by_holds.clear()
        for queue in queues:
            queue.bundle = queue.entry = None
            self.post(queue, now)

    def _first_of(self, ranked: LazyHeap[Bundle[C]], now: float) -> Turn[C] | None:
        while (bundle := ranked.first()) is not None:
            turn = self._turn(bundle, now)
            source = bundle.key[0]
            if turn is None:
                continue
            if source is not None and self.source_is_full(source):
                ranked.drop(bundle)
                source.blocked[bundle] = None
                continue
            rank = turn[:3]
            if bundle.entry is None or rank <= bundle.entry[:3]:
                return turn
            ranked.push(bundle, (*rank, bundle.number, bundle))
        return None

    def _turn(self, bundle: Bundle[C], now: float) -> Turn[C] | None:
        """Give who is first in a bundle; history reads of a flow that has enough of them are put aside."""
        while (queue := bundle.queues.first()) is not None:
            flow = queue.flow
            if queue.history and flow.history >= self.history_cap:
                self.remove(queue)
                continue
            source = bundle.key[0]
            figure = flow_figure = flow.figure(now)
            if source is not None:
                of_source = source.figure(self._level, now)
                figure = max(figure, of_source)
            return figure, flow_figure, queue.head().number, queue
        return None
