"""Everything the clients' connections share: settings, buffers, the sweep, the counters; and the listening sockets."""

import asyncio
import select
import socket

import structlog

from proxy import clock
from proxy.addresses import parse_listen_address
from proxy.downstream.connection import ClientConnection
from proxy.downstream.hangups import HangupWatcher
from proxy.downstream.settings import ConnectionSettings
from proxy.errors import Reason
from proxy.http1.deadlines import DeadlineSweep
from proxy.http1.life_cycle import State
from proxy.identity.networks import UNIX
from proxy.observability.recorder import about
from proxy.pipeline import Pipeline
from proxy.upstream.exchange import Exchange

_BACKLOG = 2048
_NOT_SENT_BYTES = (
    131_072  # that the kernel takes for a client before it takes some: it takes 3.7 MiB otherwise
)

_log = structlog.get_logger("fairgate.access")


class Listener:
    """The clients' side of the application. `access` is what `log.access` says."""

    def __init__(
        self, pipeline: Pipeline, settings: ConnectionSettings, *, max_connections: int, access: str,
        sweep: DeadlineSweep[ClientConnection],
    ) -> None:  # fmt: skip
        self.loop = asyncio.get_running_loop()
        self.pipeline = pipeline
        self.stopping = False
        self.accepted_total = 0
        self.left_total = 0
        self.connections = sweep
        self.hangups = HangupWatcher(self.loop)
        self._max_connections = max_connections
        self._servers: list[asyncio.Server] = []
        self.addresses: list[str] = []

        self.configure(settings, access=access)
        self.turn(clock.now())

    def configure(self, settings: ConnectionSettings, *, access: str) -> None:
        """Take settings, at start and whenever they change; who is connected is told apart by address anew."""
        self.settings = settings
        # Plain attributes for what is read with every request.
        self.logs_all = access == "all"
        self.max_requests = settings.max_requests
        self.max_age_s = settings.max_age_seconds
        self.max_head_bytes = settings.max_head_bytes
        self.max_fields = settings.max_fields
        self.max_target_bytes = settings.max_target_bytes
        for connection in self.connections:
            if connection.asker is not None:
                connection.asker = self.pipeline.client_keys.resolve(connection.asker.peer)

    def turn(self, now: float) -> None:
        """Set the instants that all connections opened or parked until the next turn share: 24 bytes each otherwise."""
        self.turn_at = now
        self.parked_until = now + self.settings.keep_alive_idle_seconds

    # The listening sockets.

    async def listen(self, text: str) -> None:
        """Listen at one more address.

        Raises:
            OSError: if it is taken or not ours.
        """
        address = parse_listen_address(text)
        if address.path is not None:
            server = await self.loop.create_unix_server(
                self._new_local_connection, address.path, backlog=_BACKLOG
            )
            self.addresses.append(f"unix:{address.path}")
        else:
            server = await self.loop.create_server(
                self._new_connection, address.host, address.port or 0, backlog=_BACKLOG, reuse_address=True
            )
            host, port = server.sockets[0].getsockname()[:2]
            self.addresses.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            for listening in server.sockets:  # what is accepted inherits it
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _NOT_SENT_BYTES)
        self._servers.append(server)

    def _new_connection(self) -> ClientConnection:
        return ClientConnection(self)

    def _new_local_connection(self) -> ClientConnection:
        """Of a Unix socket: its peer has no address, and is on this machine."""
        connection = ClientConnection(self)
        connection.asker = self.pipeline.client_keys.resolve(UNIX)
        return connection

    async def accept_queued(self) -> None:
        """Accept what clients have connected by now: closing a listening socket resets those that wait in it."""
        queued = select.poll()
        for server in self._servers:
            for listening in server.sockets:
                queued.register(listening.fileno(), select.POLLIN)
        for _ in range(_BACKLOG):
            if not queued.poll(0):
                return
            await asyncio.sleep(0)

    def stop_accepting(self) -> None:
        """Close the listening sockets and tell every connection; those in service go on."""
        self.stopping = True
        for server in self._servers:
            server.close()
        now = clock.now()
        for connection in list(self.connections):
            connection.stop(now)

    def close_all(self) -> None:
        """End what is still there."""
        for connection in list(self.connections):
            connection.stop_now()

    def abort_all(self) -> None:
        """End it without waiting for anybody to take what is written."""
        for connection in list(self.connections):
            connection.stop_at_once()

    # For connections.

    def opened(self, connection: ClientConnection) -> None:
        """Take a connection in, or close it at once where there are too many."""
        self.accepted_total += 1
        if connection.asker is None:
            peer = connection.transport.get_extra_info("peername")
            if isinstance(peer, tuple):
                connection.asker = self.pipeline.client_keys.resolve(peer[0])
        # A client that reset before it was accepted has no address any more, and may not borrow another's.
        if connection.asker is None or len(self.connections) >= self._max_connections:
            connection.transport.abort()
            return
        self.connections.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        """Forget a connection that ended."""
        self.connections.remove(connection)

    def answered(self, exchange: Exchange) -> None:
        """Log an exchange that ended with an answer, where all are logged (`logs_all`)."""
        if exchange.status:  # a refusal has its line already
            _log.info("request", status=exchange.status, **about(exchange, clock.now()))

    def left(self, exchange: Exchange, *, in_tunnel: bool) -> None:
        """A client left before its answer was complete: everyday life, not an error."""
        if not in_tunnel:
            self.left_total += 1
            _log.debug("left", **about(exchange, clock.now()))

    def refusal(
        self, reason: Reason, exchange: Exchange | None, retry_after_s: float | None, *, close: bool
    ) -> bytes:
        """Have a refusal counted and told; give its bytes."""
        self.pipeline.recorder.refused(exchange, reason, clock.now())
        head_only = exchange is not None and exchange.head.method == b"HEAD"
        return self.pipeline.refusal(reason, retry_after_s, close=close, head_only=head_only)

    def states(self) -> dict[str, int]:
        """Count connections by state; O(connections), for those who look."""
        counts = dict.fromkeys((state.name.lower() for state in State if state != State.CLOSED), 0)
        for connection in self.connections:
            name = connection.state.name.lower()
            counts[name] = counts.get(name, 0) + 1
        return counts
