"""How many connections an operators' listener has, and for how long: aiohttp bounds neither.

Each connection is in one phase, and in each but two it has an absolute deadline, which no byte moves:

- HEAD: from connecting, or from the first byte after an answer, until the request's head is there.
- SERVING: until the answer begins. No path reads a body; what comes of one is read and dropped for `body_s`, by aiohttp.
- TAKING: until the client has taken the answer. IDLE: until the next request.
- STREAMING (events): none, but one while the client takes nothing.

Bound: `connections` at once. One more takes the place of the one that is silent for longest, of the source with most: so
a source that opens many loses its own, and Prometheus and the kubelet get in. A connection that is served gives way only
where all are, a stream last. A connection costs a look a second, and nothing else.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from proxy import clock
from proxy.http1.deadlines import NEVER
from proxy.identity.client_key import key_of
from proxy.identity.networks import parse_address

_IPV6_PREFIX: Final = 64  # one source: what a host can take addresses from


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one listener. `connections`: scrapers, probes, 16 streams; both listeners' are half of `descriptors.OTHERS`."""

    connections: int = 32
    head_s: float = 10.0
    body_s: float = 5.0
    serving_s: float = 30.0
    taking_s: float = 30.0
    idle_s: float = 75.0  # longer than the usual scrape interval
    look_every_s: float = 1.0


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """Of one listener: connections `open` now; those that gave way to another, and those that were late, since start."""

    open: int
    displaced_total: int
    late_total: int


class _Phase(Enum):
    HEAD = auto()
    SERVING = auto()
    STREAMING = auto()
    TAKING = auto()
    IDLE = auto()


_BUSY: Final = (_Phase.SERVING, _Phase.STREAMING)


class Connections:
    """All connections of one application; makes their protocols. Raises RuntimeError where the application runs already."""

    def __init__(self, application: web.Application, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[asyncio.Protocol, _Connection] = {}  # by aiohttp's own
        self._displaced_total = 0
        self._late_total = 0
        self._timer: asyncio.TimerHandle | None = None
        application.middlewares.insert(0, self._begins())
        application.on_response_prepare.append(self._answers)

    def protocols(self, server: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Give what makes the protocols for a listening socket, from aiohttp's server; looks at deadlines from now on."""
        self._look()
        return lambda: _Connection(self, server())

    def close(self) -> None:
        """End all that are left, without waiting for anybody."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._open.values()):
            connection.abort()

    def statistics(self) -> OperatorStatistics:
        """Give the figures."""
        return OperatorStatistics(len(self._open), self._displaced_total, self._late_total)

    def enter(self, connection: "_Connection") -> None:
        """One more has come: another gives way where there are too many."""
        if len(self._open) >= self.limits.connections:
            self._displaced_total += 1
            _who_gives_way(list(self._open.values())).abort()
        self._open[connection.inner] = connection

    def leave(self, connection: "_Connection") -> None:
        """It is gone; twice is harmless."""
        self._open.pop(connection.inner, None)

    def _look(self) -> None:
        now = clock.now()
        for connection in list(self._open.values()):
            connection.settle(now)
            if connection.deadline_at <= now:
                self._late_total += 1
                connection.abort()
        self._timer = asyncio.get_running_loop().call_later(self.limits.look_every_s, self._look)

    def _begins(self) -> Any:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            if (connection := self._open.get(request.protocol)) is not None:
                connection.enter(_Phase.SERVING, clock.now())
            return await handler(request)

        return middleware

    async def _answers(self, request: web.Request, response: web.StreamResponse) -> None:
        if (connection := self._open.get(request.protocol)) is not None:
            whole = isinstance(response, web.Response)
            connection.enter(_Phase.TAKING if whole else _Phase.STREAMING, clock.now())


class _Connection(asyncio.Protocol):
    """Between a transport and aiohttp's protocol: passes everything on, and knows the phase."""

    __slots__ = ("_all", "deadline_at", "heard_at", "inner", "phase", "source", "transport")

    transport: asyncio.Transport

    def __init__(self, all_: Connections, inner: asyncio.Protocol) -> None:
        self._all = all_
        self.inner = inner
        self.source = ""
        self.heard_at = 0.0
        self.enter(_Phase.HEAD, 0.0)

    def enter(self, phase: _Phase, now: float) -> None:
        """Begin a phase, with its deadline."""
        limits = self._all.limits
        self.phase = phase
        match phase:
            case _Phase.HEAD:
                lasts_s = limits.head_s
            case _Phase.SERVING:
                lasts_s = limits.serving_s
            case _Phase.TAKING:
                lasts_s = limits.taking_s
            case _Phase.IDLE:
                lasts_s = limits.idle_s
            case _Phase.STREAMING:
                lasts_s = NEVER
        self.deadline_at = now + lasts_s

    def settle(self, now: float) -> None:
        """An answer that is taken is over."""
        if self.phase is _Phase.TAKING and not self.transport.get_write_buffer_size():
            self.enter(_Phase.IDLE, now)

    def abort(self) -> None:
        """End it at once, whatever is still to be sent."""
        self._all.leave(self)
        self.transport.abort()

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.source = key_of(parse_address(peer[0]), _IPV6_PREFIX) if isinstance(peer, tuple) else "unix"
        self.heard_at = now = clock.now()
        self.enter(_Phase.HEAD, now)
        self._all.enter(self)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.heard_at = now = clock.now()
        self.settle(now)
        if self.phase is _Phase.IDLE:
            self.enter(_Phase.HEAD, now)
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        stays_open = self.inner.eof_received()
        if not stays_open:
            self.enter(_Phase.TAKING, clock.now())  # the transport closes once all is taken
        return stays_open

    def pause_writing(self) -> None:
        if self.phase is _Phase.STREAMING:
            self.deadline_at = clock.now() + self._all.limits.taking_s
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self.phase is _Phase.STREAMING:
            self.deadline_at = NEVER
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        self.inner.connection_lost(exc)


def _who_gives_way(connections: list[_Connection]) -> _Connection:
    candidates = (
        [one for one in connections if one.phase not in _BUSY]
        or [one for one in connections if one.phase is not _Phase.STREAMING]
        or connections
    )
    by_source = Counter(one.source for one in connections)
    return min(candidates, key=lambda one: (-by_source[one.source], one.heard_at))
