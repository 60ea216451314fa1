"""The control: share caps and plain oldest first, what most proxies with a limit per client and one queue do.

A flow holds at most its share of the workers, a free worker goes to the oldest request whose flow holds fewer. It is here to be
unfair in comparison: with four clients that fill their shares, everybody else waits behind all they have in line. Pure.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from proxy.http1.deadlines import NEVER
from proxy.policies.worker_share import ASKED, ENDED, GRANTED, HELD, PARKED, RUNNING, WAITING, Ticket


class OldestFirst:
    """One pool; methods as in `WorkerShare`, without lanes and limits of lines."""

    def __init__(self, workers: int, cap: int, max_wait_s: float = NEVER) -> None:
        self.displaced: Ticket | None = None
        self.free = workers
        self._cap = cap
        self._max_wait_s = max_wait_s
        self._holds: dict[Hashable, int] = {}
        # By flow, in the order of the oldest request: a flow at its cap is passed over as a whole.
        self._lines: OrderedDict[Hashable, OrderedDict[Ticket, None]] = OrderedDict()

    def ask(self, ticket: Ticket, now: float) -> int:
        """Run it, or put it in line."""
        ticket.asked_at = now
        if self.free > 0 and ticket.flow not in self._lines and self._holds.get(ticket.flow, 0) < self._cap:
            self._start(ticket, now)
            return GRANTED
        ticket.state = WAITING
        self._lines.setdefault(ticket.flow, OrderedDict())[ticket] = None
        return PARKED

    def release(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Give the worker to the oldest that may have it."""
        if ticket.state not in (RUNNING, HELD):
            raise RuntimeError(f"released in state {ticket.state}")
        ticket.state = ENDED
        self._holds[ticket.flow] -= 1
        self.free += 1
        return self.dispatch(now)

    def hold(self, ticket: Ticket, now: float) -> Sequence[Ticket]:  # noqa: ARG002 - the port's shape
        """Keep the worker: the homeserver works on."""
        ticket.state = HELD
        return ()

    def withdraw(self, ticket: Ticket, now: float) -> Sequence[Ticket]:
        """Take one out of line."""
        self._remove(ticket)
        ticket.state = ENDED
        return self.dispatch(now)

    def expired(self, now: float) -> list[Ticket]:
        """Take those out that waited too long."""
        overdue = [t for line in self._lines.values() for t in line if t.asked_at + self._max_wait_s <= now]
        for ticket in overdue:
            self._remove(ticket)
            ticket.state = ENDED
        return overdue

    def dispatch(self, now: float) -> Sequence[Ticket]:
        """Serve while somebody may be."""
        granted = []
        while self.free > 0:
            heads = [
                next(iter(line)) for flow, line in self._lines.items() if self._holds.get(flow, 0) < self._cap
            ]
            if not heads:
                break
            ticket = min(heads, key=lambda head: head.asked_at)
            self._remove(ticket)
            ticket.state = ASKED
            self._start(ticket, now)
            granted.append(ticket)
        return granted

    def next_deadline(self) -> float:
        """Give when the oldest in line will have waited too long."""
        return min(
            (next(iter(line)).asked_at + self._max_wait_s for line in self._lines.values()),
            default=NEVER,
        )

    def retry_after_s(self, ticket: Ticket, now: float) -> float:  # noqa: ARG002 - the port's shape
        """Say a second, whatever the backlog."""
        return 1.0

    def _start(self, ticket: Ticket, now: float) -> None:
        self.free -= 1
        self._holds[ticket.flow] = self._holds.get(ticket.flow, 0) + 1
        ticket.state = RUNNING
        ticket.started_at = now

    def _remove(self, ticket: Ticket) -> None:
        line = self._lines[ticket.flow]
        del line[ticket]
        if not line:
            del self._lines[ticket.flow]
