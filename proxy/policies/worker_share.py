"""Who gets the homeserver's workers: each flow its share, in the order of who had least.

Promises (behaviour.md §4, derived in docs/fairness.md):
- A flow's first worker needs only a free one. Each further one, up to its share, needs that the flow holds fewer than are
  free. So a few flows never close a lane. All flows of one address hold at most 7/8 of pool and lane.
- No worker stays free while somebody waits who may have it by these rules.
- Who waits is served in the order of `mechanisms/fair_queue.py`, a guaranteed lane (federation) below its guarantee before all.
- A ticket is granted, refused or given back exactly once; a second time raises `RuntimeError`.

Cost: O(1) while nobody waits, without allocation but for records of newcomers; O(log n) amortised for a decision among n.
Memory: a record per active flow and address, at most twice `REMEMBERED` idle ones beside them, and what is in line.
Left to others: what a lane is for, who is confirmed or exempt, timers, jitter, answers. Pure.
"""

from collections.abc import Sequence
from typing import Final

from proxy.policies.worker_line import (
    NOBODY,
    bring_up,
    code_of,
    enter_line,
    leave_line,
    make_room,
    post_all,
    really_free,
    released,
    serve,
    start,
)
from proxy.policies.worker_pool import (
    ASKED,
    ENDED,
    HELD,
    RUNNING,
    WAITING,
    LaneRule,
    Pool,
    PoolRule,
    Ticket,
    excess_of,
)
from proxy.policies.worker_promise import note_waited
from proxy.policies.worker_statistics import ShareStatistics, lane_statistics, top_flows

__all__ = [
    "ASKED",
    "ENDED",
    "GRANTED",
    "HELD",
    "PARKED",
    "REFUSED",
    "RUNNING",
    "WAITING",
    "LaneRule",
    "PoolRule",
    "Ticket",
    "WorkerShare",
]

GRANTED: Final = 0
PARKED: Final = 1
REFUSED: Final = 2

NEVER: Final = float("inf")


class WorkerShare:
    """All workers of one homeserver. `now` is monotonic seconds and never goes back."""

    def __init__(
        self, pools: Sequence[PoolRule], *, now: float, address_share: float = 0.875, max_lead_s: float = 10.0
    ) -> None:
        self.displaced: Ticket | None = (
            None  # by the last `ask` that did not grant: who lost its place in line to it
        )
        self._numbers = 0
        self._pools = [Pool(rule, max_lead_s, now) for rule in pools]
        self._lanes = [lane for pool in self._pools for lane in pool.lanes]
        self._resize(pools, address_share)

    def ask(self, ticket: Ticket, now: float) -> int:
        """Ask for a worker. GRANTED: it runs · PARKED: it is in line, see `displaced` · REFUSED: the line is full.

        A full line refuses the newest request of the flow with most waiting: the one who asks, or `displaced`, which has ENDED.
        A refused ticket may still be given to `take`.
        """
        if ticket.state != ASKED:
            raise RuntimeError(f"asked for in state {ticket.state}")
        lane = self._lanes[ticket.lane]
        pool = lane.pool
        flow = pool.flows.get(ticket.flow)
        if flow is None:
            flow = pool.new_flow(ticket.flow, now)
        if ticket.address_capped and not ticket.exempt:
            source = pool.sources.get(ticket.address)
            if source is None:
                source = pool.new_source(ticket.address)
        else:
            source = None
        ticket.flow_record = flow
        ticket.lane_record = lane
        ticket.source = source
        ticket.asked_at = now
        holds = flow.holds
        free = lane.free if lane.free < pool.free else pool.free  # noqa: FURB136 - min() costs 100 ns more
        spare = really_free(lane) if holds and (pool.excess or lane.excess) else free
        if (
            ((holds < spare and holds < lane.flow_cap) or (ticket.exempt and free > 0))
            and (
                source is None
                or (
                    source.holds < pool.source_cap
                    and not (lane.bounded and source.by_lane[lane.index] >= lane.source_cap)
                )
            )
            and not (ticket.history and flow.history >= lane.history_cap)
            and not (flow.waiting and code_of(lane, ticket) in flow.queues)  # oldest first within a flow
        ):
            # The same as `_start_now`, in line: calls are half of what this costs.
            if pool.waiting:
                bring_up(pool, flow, source, now)
            flow.holds = holds + 1
            flow.spent_s -= now
            if not holds and not flow.waiting:
                pool.active += 1
            if ticket.history:
                flow.history += 1
            if source is not None:
                source.holds += 1
                if lane.bounded:
                    source.by_lane[lane.index] += 1
                if ticket.confirmed:
                    flows = source.flows
                    flows[flow] = flows[flow] + 1 if flow in flows else 1
            lane.free -= 1
            pool.free -= 1
            lane.granted_total += 1
            ticket.state = RUNNING
            ticket.started_at = now
            if flow.waiting:
                post_all(flow, now)
            return GRANTED
        return self._park(ticket, now)

    def take(self, ticket: Ticket, now: float) -> None:
        """Run a request whatever the rules say (report mode, a rule overridden); what it holds is counted all the same.

        For a ticket not asked for yet, refused, or in line; from there it may leave a place for others: see `dispatch`.
        """
        if ticket.state == WAITING:
            leave_line(ticket, now)
        elif ticket.state != ASKED:
            raise RuntimeError(f"taken in state {ticket.state}")
        lane = ticket.lane_record = self._lanes[ticket.lane]
        pool = lane.pool
        ticket.flow_record = pool.flows.get(ticket.flow) or pool.new_flow(ticket.flow, now)
        ticket.source = None
        if ticket.address_capped and not ticket.exempt:
            ticket.source = pool.sources.get(ticket.address) or pool.new_source(ticket.address)
        ticket.asked_at = now
        self._start_now(ticket, now)

    def release(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Give a worker back, held ones too; give who runs now, in order."""
        flow = ticket.flow_record
        lane = ticket.lane_record
        pool = lane.pool
        source = ticket.source
        if ticket.state == RUNNING:
            lane.free += 1
            pool.free += 1
        else:
            self._end_of_held(ticket)
        ticket.state = ENDED
        if pool.waiting:
            bring_up(pool, flow, source, now)
        flow.spent_s += now
        flow.holds = holds = flow.holds - 1
        if not holds and not flow.waiting:
            pool.active -= 1
            flow.idle_at = now
        if ticket.history:
            flow.history -= 1
        if source is not None:
            source.holds -= 1
            if lane.bounded:
                source.by_lane[lane.index] -= 1
            if ticket.confirmed:
                flows = source.flows
                if flows[flow] == 1:
                    del flows[flow]
                else:
                    flows[flow] -= 1
        service_s = now - ticket.started_at
        lane.ended += 1
        lane.service_s += service_s
        if service_s > pool.longest.latest:  # noqa: PLR1730 - max() costs 100 ns more
            pool.longest.latest = service_s
        if not pool.waiting:
            return NOBODY
        return released(pool, flow, source, now)

    def hold(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Note that nobody waits for the answer but the homeserver works on; give who runs now.

        Held workers count against flow and address always; see `excess_of` for lane and pool.
        """
        if ticket.state != RUNNING:
            raise RuntimeError(f"held in state {ticket.state}")
        ticket.state = HELD
        lane = ticket.lane_record
        pool = lane.pool
        ticket.flow_record.held += 1
        for books in (lane, pool):
            books.held += 1
            excess = excess_of(books.held, books.workers)
            books.free += excess - books.excess
            books.excess = excess
        return serve(pool, now) if pool.waiting else NOBODY

    def withdraw(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Take a request out of line, since its client left; give who runs now."""
        if ticket.state != WAITING:
            raise RuntimeError(f"withdrawn in state {ticket.state}")
        leave_line(ticket, now)
        pool = ticket.lane_record.pool
        return serve(pool, now) if pool.waiting else NOBODY

    def expired(self, now: float) -> list[Ticket]:
        """Take those out of line that waited as long as their lane lets them; `dispatch` must follow if there are any."""
        overdue: list[Ticket] = []
        for lane in self._lanes:
            while lane.parked:
                ticket = next(iter(lane.parked))
                if ticket.asked_at + lane.max_wait_s > now:
                    break
                note_waited(ticket, now)
                leave_line(ticket, now)
                lane.expired_total += 1
                overdue.append(ticket)
        return overdue

    def clear_lines(self, now: float) -> list[Ticket]:
        """Take everybody out of line, by lane and age: another share takes over. What runs is still given back here."""
        cleared: list[Ticket] = []
        for lane in self._lanes:
            cleared += lane.parked
        for ticket in cleared:
            leave_line(ticket, now)
        return cleared

    def dispatch(self, now: float) -> Sequence[Ticket]:
        """Give who runs now, after `expired` or `take` took requests out of line that others of the same flow were behind."""
        granted: list[Ticket] = []
        for pool in self._pools:
            if pool.waiting:
                granted += serve(pool, now)
        return granted or NOBODY

    def next_deadline(self) -> float:
        """Give when the next request will have waited too long, NEVER if none waits."""
        deadline = NEVER
        for lane in self._lanes:
            if lane.parked:
                deadline = min(deadline, next(iter(lane.parked)).asked_at + lane.max_wait_s)
        return deadline

    def retry_after_s(self, ticket: Ticket, now: float) -> float:
        """Give when a refused or expired request may be worth another try, 1 to 60 s without jitter.

        Half of what its flow's oldest request waited already, or what its flow's backlog takes at an even share: the greater.
        """
        flow = ticket.flow_record
        lane = ticket.lane_record
        pool = lane.pool
        workers = min(lane.flow_cap, max(lane.workers, 1) / max(1, pool.active))
        oldest_s = max((now - queue.head().asked_at for queue in flow.queues.values()), default=0.0)
        return min(60.0, max(1.0, oldest_s / 2, (flow.waiting + 1) * lane.mean_service_s() / workers))

    def reconfigure(
        self, pools: Sequence[PoolRule], now: float, *, address_share: float = 0.875
    ) -> Sequence[Ticket]:
        """Take other figures for the same lanes in the same pools; what runs stays counted. Give who runs now.

        Raises ValueError where lanes or pools are not the same.
        """
        if [[lane.name for lane in rule.lanes] for rule in pools] != [
            [lane.name for lane in pool.lanes] for pool in self._pools
        ]:
            raise ValueError("a pool's lanes cannot change while it is in use")
        self._resize(pools, address_share)
        for pool in self._pools:
            flows = [flow for flow in pool.flows.values() if flow.queues]
            for source in pool.sources.values():
                source.blocked.clear()
            for lane in pool.lanes:
                queues = [
                    queue for flow in flows for queue in flow.queues.values() if queue.lane is lane.queue
                ]
                lane.queue.rebuild(queues, now)
        return self.dispatch(now)

    def statistics(self, now: float, most_flows: int = 20) -> ShareStatistics:
        """Look at all lanes, and at the flows that had most worker-seconds."""
        return ShareStatistics(
            lanes=tuple(lane_statistics(lane, now) for lane in self._lanes),
            active_flows=sum(pool.active for pool in self._pools),
            longest_service_s=max(pool.longest.value(now) for pool in self._pools),
            top_flows=top_flows(self._pools, most_flows, now),
        )

    def _start_now(self, ticket: Ticket, now: float) -> None:
        """Let a ticket run that is not in line."""
        flow = ticket.flow_record
        pool = ticket.lane_record.pool
        if pool.waiting:
            bring_up(pool, flow, ticket.source, now)
        if not flow.holds and not flow.waiting:
            pool.active += 1
        if ticket.source is not None and ticket.confirmed:
            ticket.source.enter(flow)
        start(ticket, now)
        if flow.waiting:
            post_all(flow, now)

    def _park(self, ticket: Ticket, now: float) -> int:
        lane = ticket.lane_record
        self.displaced = None
        if len(lane.parked) >= lane.line:
            enters, self.displaced = make_room(lane, ticket.flow_record, now)
            lane.refused_total += 1 if not enters or self.displaced else 0
            if not enters:
                return REFUSED
        self._numbers += 1
        lane.parked_total += 1
        enter_line(ticket, self._numbers, now)
        return PARKED

    def _end_of_held(self, ticket: Ticket) -> None:
        if ticket.state != HELD:
            raise RuntimeError(f"released in state {ticket.state}")
        lane = ticket.lane_record
        for books in (lane, lane.pool):
            books.held -= 1
            excess = excess_of(books.held, books.workers)
            books.free += 1 + excess - books.excess
            books.excess = excess
        ticket.flow_record.held -= 1

    def _resize(self, rules: Sequence[PoolRule], address_share: float) -> None:
        for pool, rule in zip(self._pools, rules, strict=True):
            pool.resize(rule.workers, address_share)
            for lane, lane_rule in zip(pool.lanes, rule.lanes, strict=True):
                lane.resize(lane_rule, address_share)
