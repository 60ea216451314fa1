"""Whose requests sent ahead are served next: a few in each turn of the event loop, connections in turn.

A client may send hundreds of requests at once, each of which is refused in a fraction of a millisecond. Served one after the
other they would stop everybody else for tens of milliseconds, from each of thousands of connections. So only the first is
served when it comes; each other one stands here, and in between the loop reads what others sent.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.downstream.client_requests import ClientRequests

_PER_TURN: Final = 8  # below a millisecond


class Ahead:
    """Connections with a request sent ahead that could be served, in order; each is here once."""

    __slots__ = ("_due", "_line", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[ClientRequests] = deque()
        self._due = False

    def append(self, connection: "ClientRequests") -> None:
        """Have `connection.serve_ahead` called in its turn, once."""
        self._line.append(connection)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        line = self._line
        try:
            for _ in range(min(_PER_TURN, len(line))):
                line.popleft().serve_ahead()
        finally:  # an error in one of them stops none of the others
            self._due = bool(line)
            if line:
                self._loop.call_soon(self._serve)
