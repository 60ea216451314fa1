"""The line for workers: entering it, leaving it, and being served. Part of `worker_share.py`, which has the rules.

All of this runs only while somebody waits, but for `start`. Figures of flows and addresses are brought up to date before
anything they depend on changes, and their queues are ranked anew after. Pure.
"""

from collections.abc import Sequence
from typing import Final

from proxy.mechanisms.attained_service import Flow, Source
from proxy.mechanisms.fair_queue import Queue, Turn
from proxy.policies.worker_pool import ENDED, RUNNING, WAITING, Lane, Pool, Ticket
from proxy.policies.worker_promise import note_parked, note_waited

NOBODY: Final[tuple[Ticket, ...]] = ()

# A queue's code: the lane's place among those that share its workers, then the kind of request.
_HISTORY: Final = 1
_EXEMPT: Final = 2
_KINDS: Final = 4


def code_of(lane: Lane, ticket: Ticket) -> int:
    """Give which of its flow's queues a ticket belongs in: requests that may run under the same conditions."""
    return lane.index * _KINDS + ticket.history * _HISTORY + ticket.exempt * _EXEMPT


def really_free(lane: Lane) -> int:
    """Give how many workers are free at the homeserver: also held ones beyond the quarter count here."""
    pool = lane.pool
    return min(lane.free - lane.excess, pool.free - pool.excess)


def bring_up(pool: Pool, flow: Flow, source: Source | None, now: float) -> None:
    """Bring figures up to date, before what they depend on changes."""
    flow.bring_up(pool.level)
    if source is not None:
        source.bring_up(pool.level, now)


def post_all(flow: Flow, now: float) -> None:
    """Rank all queues of a flow, after what it holds changed."""
    for queue in flow.queues.values():
        queue.lane.post(queue, now)


def start(ticket: Ticket, now: float) -> None:
    """Let a ticket run whose request is counted as active already."""
    flow = ticket.flow_record
    lane = ticket.lane_record
    source = ticket.source
    flow.holds += 1
    flow.spent_s -= now
    if ticket.history:
        flow.history += 1
    if source is not None:
        source.holds += 1
        if lane.bounded:
            source.by_lane[lane.index] += 1
    lane.free -= 1
    lane.pool.free -= 1
    lane.granted_total += 1
    ticket.state = RUNNING
    ticket.started_at = now


def make_room(lane: Lane, flow: Flow, now: float) -> tuple[bool, Ticket | None]:
    """Take the newest request of the flow with most waiting out of a full line; tell whether `flow` may enter, and who left.

    Where nobody has two, a flow with nothing waiting enters all the same: nobody loses the only place it has.
    """
    greediest, most = lane.most.most()
    own = lane.most.count(flow)
    if own and own + 1 >= most:
        return False, None
    if greediest is None or most < 2:
        return True, None
    newest: Ticket = max(
        (next(reversed(queue.claims)) for queue in greediest.queues.values() if queue.lane is lane.queue),
        key=lambda ticket: ticket.number,
    )
    leave_line(newest, now)
    return True, newest


def enter_line(ticket: Ticket, number: int, now: float) -> None:
    """Put a ticket in line; `number` grows with each."""
    flow = ticket.flow_record
    lane = ticket.lane_record
    pool = lane.pool
    source = ticket.source
    starved = not flow.holds and pool.free <= 0
    if not pool.waiting or (starved and not pool.contended):
        pool.level.begin_period(now)
        pool.contended = starved
    if not flow.waiting:
        flow.bring_up(pool.level)
        flow.lower_to(pool.level.value + pool.level.max_lead_s, now)
        if not flow.holds:
            pool.active += 1
    if source is not None:
        source.bring_up(pool.level, now)
        source.waiting += 1
        if ticket.confirmed:
            source.enter(flow)
    ticket.number = number
    ticket.state = WAITING
    flow.waiting += 1
    pool.waiting += 1
    lane.parked[ticket] = None
    lane.most.add(flow)
    note_parked(ticket, now)
    code = code_of(lane, ticket)
    queue = flow.queues.get(code)
    if queue is None:
        queue = Queue(flow, lane.queue, code, history=ticket.history, exempt=ticket.exempt)
        flow.queues[code] = queue
    ticket.queue = queue
    queue.claims[ticket] = None
    if len(queue.claims) == 1:
        lane.queue.post(queue, now)


def leave_line(ticket: Ticket, now: float) -> None:
    """Take a ticket out of line unserved."""
    flow = ticket.flow_record
    pool = ticket.lane_record.pool
    source = ticket.source
    if source is not None:
        source.bring_up(pool.level, now)
        if ticket.confirmed:
            source.leave(flow)
    was_head = ticket.queue.head() is ticket
    _unlink(ticket)
    if was_head and ticket.queue.claims:
        ticket.queue.lane.post(ticket.queue, now)
    ticket.state = ENDED
    if not flow.waiting and not flow.holds:
        pool.active -= 1
        flow.idle_at = now


def released(pool: Pool, flow: Flow, source: Source | None, now: float) -> Sequence[Ticket]:
    """Serve the line after `flow` gave back a worker."""
    flow.lower_to(pool.level.value + pool.level.max_lead_s, now)
    if flow.waiting:
        post_all(flow, now)
    if source is not None and source.blocked:
        bundles = list(source.blocked)
        source.blocked.clear()
        for bundle in bundles:
            bundle.lane.repost(bundle, now)
    return serve(pool, now)


def serve(pool: Pool, now: float) -> Sequence[Ticket]:
    """Give free workers to those in line who may have them; give who runs now, in order."""
    granted: list[Ticket] = []
    while pool.free > 0 and pool.waiting:
        turn, guaranteed = _next(pool, now)
        if turn is None:
            break
        if not guaranteed:
            pool.level.reach(turn[0])
        granted.append(_grant(turn[3], now))
    if pool.free > 0:
        pool.contended = False
    return granted or NOBODY


def _next(pool: Pool, now: float) -> tuple[Turn[Ticket] | None, bool]:
    """Give whose turn it is, and whether a guarantee makes it so."""
    best: Turn[Ticket] | None = None
    for lane in pool.lanes:
        if lane.free <= 0 or not lane.parked:
            continue
        turn = lane.queue.first(really_free(lane), now)
        if turn is None:
            continue
        if lane.below_guarantee():
            return turn, True
        if best is None or turn < best:
            best = turn
    return best, False


def _grant(queue: Queue[Ticket], now: float) -> Ticket:
    ticket = queue.head()
    flow = queue.flow
    source = ticket.source
    pool = ticket.lane_record.pool
    note_waited(ticket, now)
    bring_up(pool, flow, source, now)
    least = pool.level.value - pool.turn_s()
    flow.raise_to(least, now)
    if source is not None:
        source.figure_s = max(source.figure_s, least)
    _unlink(ticket)
    start(ticket, now)
    post_all(flow, now)
    return ticket


def _unlink(ticket: Ticket) -> None:
    """Take a ticket out of its queue and lane; where others are left, the queue is to be ranked anew if its head changed."""
    flow = ticket.flow_record
    lane = ticket.lane_record
    queue = ticket.queue
    del queue.claims[ticket]
    del lane.parked[ticket]
    lane.most.take(flow)
    flow.waiting -= 1
    lane.pool.waiting -= 1
    if ticket.source is not None:
        ticket.source.waiting -= 1
    if not queue.claims:
        queue.lane.remove(queue)
        del flow.queues[queue.code]
