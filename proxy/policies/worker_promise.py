"""How long a fair share of the workers may make a request wait, and whether that was kept.

With at most N other active flows and P workers, a request of a flow with nothing else in line or in service, whose figure is
not above the level and whose address's figure is not above its own, waits at most

    N < P:   S                        N >= P:   S * (1 + ⌈(N + 1) / P⌉)

where S is the longest service of the last hour, held ones included. docs/fairness.md derives it. What others are guaranteed in
a shared pool counts as not there. Pure.
"""

from proxy.policies.worker_pool import Ticket


def wait_bound_s(others: int, workers: int, longest_s: float) -> float:
    """Give the bound for `others` active flows beside the one that waits."""
    if others < workers:
        return longest_s
    return longest_s * (1 + -(-(others + 1) // workers))


def note_parked(ticket: Ticket, now: float) -> None:
    """Note whether the promise holds for a ticket just put in line, and beside how many."""
    flow = ticket.flow_record
    pool = ticket.lane_record.pool
    source = ticket.source
    figure = flow.figure(now)
    keeps_to_its_share = (
        not flow.holds
        and flow.waiting == 1
        and figure <= pool.level.value
        and (source is None or source.figure(pool.level, now) <= max(figure, pool.level.value))
    )
    ticket.others = pool.active - 1 if keeps_to_its_share else -1


def note_waited(ticket: Ticket, now: float) -> None:
    """Compare the wait that ends now with what was promised."""
    if ticket.others < 0:
        return
    lane = ticket.lane_record
    pool = lane.pool
    others = max(ticket.others, pool.active - 1)
    guaranteed_to_others = sum(other.guaranteed for other in pool.lanes if other is not lane)
    workers = max(1, min(lane.workers, pool.workers - guaranteed_to_others))
    bound_s = wait_bound_s(others, workers, pool.longest.value(now))
    if bound_s > 0:
        worst = lane.worst_ratio
        worst.value(now)  # turns the slots
        worst.latest = max(worst.latest, (now - ticket.asked_at) / bound_s)
