"""Who has which connection to the homeserver: bookkeeping only, every call O(1) and without I/O.

A place is connecting, idle or busy; their sum never exceeds `limit`. Each method decides and *returns* what is to be done;
the caller acts. Invariant, whatever order events come in: while somebody waits, at least one place is connecting or busy,
so somebody's end will serve them. Waiters are served first come, first served.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

C = TypeVar("C")  # a connection
W = TypeVar("W")  # who waits for one


class PoolState(Generic[C, W]):
    """The places of one pool."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.connecting = 0
        self.busy = 0
        self.idle: dict[C, None] = {}
        self.waiting: OrderedDict[W, None] = OrderedDict()

    @property
    def places(self) -> int:
        """All places taken."""
        return self.connecting + self.busy + len(self.idle)

    def ask(self, waiter: W) -> C | None:
        """Give the connection idle for the shortest time, or put `waiter` in line (see `must_connect`)."""
        if self.idle:
            self.busy += 1
            return self.idle.popitem()[0]
        self.waiting[waiter] = None
        return None

    def must_connect(self) -> bool:
        """Tell whether one more connection is to be made now; if so, it is counted as connecting from here on."""
        if len(self.waiting) > self.connecting and self.places < self.limit:
            self.connecting += 1
            return True
        return False

    def connected(self, connection: C) -> W | None:
        """Book a connection just made; give who is served by it, None if it is idle."""
        self.connecting -= 1
        self.busy += 1
        return self.released(connection)

    def connect_failed(self) -> W | None:
        """Book a connection that could not be made; give who is told so: the one waiting longest."""
        self.connecting -= 1
        if len(self.waiting) > self.connecting:
            return self.waiting.popitem(last=False)[0]
        return None

    def released(self, connection: C) -> W | None:
        """Book the end of a request on a connection that can serve another; give who is served by it next."""
        if self.waiting:
            return self.waiting.popitem(last=False)[0]
        self.busy -= 1
        self.idle[connection] = None
        return None

    def lost(self, connection: C) -> None:
        """Book the end of a connection, idle or busy."""
        if connection in self.idle:
            del self.idle[connection]
        else:
            self.busy -= 1

    def withdraw(self, waiter: W) -> bool:
        """Take back what `ask` put in line; tell whether it still was."""
        if waiter in self.waiting:
            del self.waiting[waiter]
            return True
        return False
