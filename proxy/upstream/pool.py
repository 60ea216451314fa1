"""Connections to the homeserver: made when needed, kept while useful, given to whoever waited longest.

`PoolState` books, this acts. Every wait here ends: a connect by its timeout, a place in line by `_MAX_WAIT_S`, or the
deadline of what was asked.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

import structlog

from proxy import clock
from proxy.addresses import Address
from proxy.errors import Reason
from proxy.http1.deadlines import NEVER, DeadlineSweep
from proxy.http1.pool_state import PoolState
from proxy.mechanisms.outage_notice import OutageNotice
from proxy.observability.snapshot import PoolStatistics
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.exchange import Exchange
from proxy.want_of_descriptors import is_for_want_of_descriptors

_MAX_WAIT_S = 30.0  # for a connection, when all are taken
_WRITE_HIGH_WATER_BYTES = 65_536

_log = structlog.get_logger("fairgate.upstream")

#: Connects a protocol made by the factory to the homeserver.
Connect = Callable[[asyncio.AbstractEventLoop, Callable[[], UpstreamConnection]], "asyncio.Future[object]"]


class Pool:
    """All connections to one homeserver."""

    def __init__(
        self, address: "tuple[str, int] | str", *, limit: int, connect_timeout_s: float, idle_s: float,
        sweep: "DeadlineSweep[UpstreamConnection]", tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._idle_s = idle_s
        self._address = address
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._sweep = sweep
        self._state: PoolState[UpstreamConnection, Exchange] = PoolState(limit)
        self._connects: set[asyncio.Task[None]] = set()
        self._to_send: list[UpstreamConnection] = []
        self._connections: set[UpstreamConnection] = set()
        self.failing_since: float | None = None
        self._unreachable = OutageNotice()
        self._opened_total = self._reused_total = self._resent_total = self._failed_total = 0

    @property
    def limit(self) -> int:
        """How many connections there may be."""
        return self._state.limit

    def resize(self, limit: int) -> None:
        """Allow so many connections from now on; none is closed for it."""
        self._state.limit = limit
        self._connect_as_needed()

    # For exchanges.

    def submit(self, exchange: Exchange, now: float) -> None:
        """Run `exchange` on an idle connection at once, or on the next that is there."""
        connection = self._state.ask(exchange)
        if connection is not None:
            self._reused_total += 1
            connection.begin(exchange, now)
            return
        exchange.waits_until = now + min(_MAX_WAIT_S, exchange.deadline_s)
        self._connect_as_needed()

    def withdraw(self, exchange: Exchange) -> None:
        """Let `exchange` wait no longer."""
        self._state.withdraw(exchange)

    def resend(self, exchange: Exchange) -> None:
        """Run again what met a stale connection; the other idle ones are most likely stale too."""
        self._resent_total += 1
        exchange.resends += 1
        exchange.upstream = None
        for connection in list(self._state.idle):
            self.discard(connection)
        self.submit(exchange, clock.now())

    def send_soon(self, connection: UpstreamConnection) -> None:
        """Send a request without a body at the end of this turn of the loop, together with the others of the turn.

        A write wakes the homeserver's process, which costs more than the write itself where it sleeps each time anew:
        a tenth of all CPU of a small request, measured.
        """
        if not self._to_send:
            asyncio.get_running_loop().call_soon(self._send)
        self._to_send.append(connection)

    def _send(self) -> None:
        connections, self._to_send = self._to_send, []
        for connection in connections:
            connection.send()

    # For connections.

    def release(self, connection: UpstreamConnection, now: float) -> None:
        """Take back a connection that can serve another request."""
        exchange = self._state.released(connection)
        if exchange is None:
            connection.deadline_at = now + self._idle_s
        else:
            self._reused_total += 1
            connection.begin(exchange, now)

    def discard(self, connection: UpstreamConnection) -> None:
        """Close an idle connection; nobody gets it any more, not even within this turn of the loop."""
        self._forget(connection)
        connection.transport.abort()

    def lost(self, connection: UpstreamConnection) -> None:
        """Forget a connection that ended, and make another if somebody waits."""
        self._forget(connection)
        self._connect_as_needed()

    def note_answer(self) -> None:
        """The homeserver answers: an outage, if there was one, is over."""
        failing_since = self.failing_since
        if failing_since is not None:
            _log.info("homeserver answers again", after_s=round(clock.now() - failing_since, 1))
            self.failing_since = None
            self._unreachable.over()

    def note_failure(self, now: float) -> None:
        """The homeserver could not be used."""
        self._failed_total += 1
        if self.failing_since is None:
            self.failing_since = now

    def _note_unreachable(self, cause: str, now: float) -> None:
        """No connection could be made."""
        self.note_failure(now)
        if self._unreachable.may_tell(now):
            _log.warning(
                "homeserver cannot be reached",
                address=_written(self._address),
                cause=cause,
                failing_seconds=round(self.failing_for_s(now), 1),
            )

    def note_broken(self, reason: Reason, error: Exception | None) -> None:
        """An answer was late or malformed."""
        self.note_failure(clock.now())
        _log.info("answer given up", reason=reason.value, detail=str(error) if error else None)

    # For the application.

    def failing_for_s(self, now: float) -> float:
        """Give how long the homeserver has not answered; 0 while it does."""
        return 0.0 if self.failing_since is None else now - self.failing_since

    def end_waits(self, now: float) -> None:
        """Refuse who waited too long; called by the sweep's timer."""
        waiting = self._state.waiting
        while waiting:
            exchange = next(iter(waiting))
            if exchange.waits_until > now:
                return
            self._state.withdraw(exchange)
            exchange.fail(Reason.UPSTREAM_BUSY, now)

    def close(self) -> None:
        """End every connection and connect."""
        for task in self._connects:
            task.cancel()
        for connection in list(self._connections):
            connection.transport.abort()

    def statistics(self) -> PoolStatistics:
        """Give the pool's figures."""
        state, failing_since = self._state, self.failing_since
        return PoolStatistics(
            limit=state.limit,
            connecting=state.connecting,
            idle=len(state.idle),
            busy=state.busy,
            waiting=len(state.waiting),
            opened_total=self._opened_total,
            reused_total=self._reused_total,
            resent_total=self._resent_total,
            failed_total=self._failed_total,
            failing_since_s=None if failing_since is None else clock.now() - failing_since,
        )

    # Connecting.

    def _connect_as_needed(self) -> None:
        while self._state.must_connect():
            task = asyncio.get_running_loop().create_task(self._connect())
            self._connects.add(task)
            task.add_done_callback(self._connects.discard)

    async def _connect(self) -> None:
        """Make one connection; whatever happens, the place that `must_connect` booked is given on."""
        loop = asyncio.get_running_loop()
        reason, cause = Reason.UPSTREAM_UNREACHABLE, "it closed the connection at once"
        connection: UpstreamConnection | None = None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                if isinstance(self._address, str):
                    _, made = await loop.create_unix_connection(self._new_connection, self._address)
                else:
                    _, made = await loop.create_connection(
                        self._new_connection, *self._address, ssl=self._tls
                    )
            connection = cast(UpstreamConnection, made)
        except TimeoutError:
            reason, cause = Reason.CONNECT_TIMEOUT, f"no connection within {self._connect_timeout_s:g} s"
        except OSError as error:
            cause = str(error) or type(error).__name__
            _log.debug("connect failed", error=cause)
            if is_for_want_of_descriptors(error):
                reason = Reason.NO_DESCRIPTORS
        finally:
            self._connected(connection, reason, cause)

    def _new_connection(self) -> asyncio.BaseProtocol:
        return UpstreamConnection(self).as_protocol()

    def _connected(self, connection: UpstreamConnection | None, reason: Reason, cause: str = "") -> None:
        now = clock.now()
        if connection is None or connection.transport.is_closing():
            if reason is Reason.NO_DESCRIPTORS:
                self._failed_total += 1  # of us it tells, not of the homeserver
            else:
                self._note_unreachable(cause, now)
            exchange = self._state.connect_failed()
            if exchange is not None:
                exchange.fail(reason, now)
            self._connect_as_needed()
            return
        self._opened_total += 1
        connection.transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_BYTES)
        self._connections.add(connection)
        self._sweep.add(connection)
        exchange = self._state.connected(connection)
        if exchange is None:
            connection.deadline_at = now + self._idle_s
        else:
            connection.begin(exchange, now)

    def _forget(self, connection: UpstreamConnection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._sweep.remove(connection)
            self._state.lost(connection)
            connection.deadline_at = NEVER


def _written(address: "tuple[str, int] | str") -> str:
    return str(Address(path=address) if isinstance(address, str) else Address(*address))
