"""The way out: listens for the homeserver, and owns all that its connections share (behaviour.md §7.2 to §7.5, ADR 0016).

    egress = Egress(settings, loop, clock.now, state_directory=Path("/var/lib/fairgate"))
    await egress.start(); egress.learn("push.example", 443); egress.statistics(); await egress.stop()

The data path tells which gateways were registered and who federates; everything else is seen here. One timer looks at the
deadlines and writes what was learned, at most every `_SAVE_EVERY_S`.
"""

import asyncio
import ipaddress
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from proxy import unix_listener
from proxy.addresses import parse_listen_address
from proxy.egress.connection import ConnectionState, HomeserverConnection
from proxy.egress.deliveries import Deliveries
from proxy.egress.dialer import Dialer
from proxy.egress.origin import KeptOrigins, OriginConnection
from proxy.egress.request import ProxyRequest
from proxy.egress.resolver import Lookup, Resolver, system_lookup
from proxy.egress.settings import EgressSettings
from proxy.egress.state import read_known, rendered, write_whole
from proxy.egress.statistics import EgressStatistics, egress_statistics
from proxy.egress.tunnel import FarSide
from proxy.errors import Told
from proxy.http1.deadlines import DeadlineSweep
from proxy.identity.networks import Networks, parse_address
from proxy.mechanisms.origin_names import normal_host, written
from proxy.policies.address_guard import AddressGuard
from proxy.policies.push_egress import KnownHosts, gateway_key

_BACKLOG: Final = 512
_TURNS_PER_ROUND: Final = 2
_TURN_S: Final = 0.25  # a deadline is found within half a second
_SAVE_EVERY_S: Final = 2.0
_STRANGER_WARN_S: Final = 60.0

_log = structlog.get_logger("fairgate.egress")


class Egress:
    """See the module. `lookup` is how names are looked up, in threads."""

    def __init__(
        self,
        settings: EgressSettings,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        *,
        state_directory: Path | None = None,
        lookup: Lookup = system_lookup,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.clock = clock
        self.stopping = False
        self.known = KnownHosts(settings.gateways)
        self.deliveries = Deliveries(loop, clock, settings, self.known)
        self.resolver = Resolver(loop, clock, lookup, settings.resolve_timeout_seconds)
        self.dialer = Dialer(loop, self.resolver, _guard(settings), settings.connect_timeout_seconds)
        self.connections: DeadlineSweep[HomeserverConnection] = DeadlineSweep(_TURNS_PER_ROUND)
        self.kept = KeptOrigins(DeadlineSweep[OriginConnection](_TURNS_PER_ROUND))
        self.left: DeadlineSweep[FarSide] = DeadlineSweep(_TURNS_PER_ROUND)  # of tunnels that ended in order
        self.accepted_total = self.strangers_total = self.filtered_total = 0
        self.requests_total: Counter[str] = Counter(connect=0, plain=0)
        self.refused_total: Counter[str] = Counter()
        self.address: str | None = None
        self._clients = Networks(settings.clients)
        self._state_directory = state_directory
        self._servers: list[asyncio.Server] = []
        self._handed_over = False
        self._local = False
        self._turn: asyncio.TimerHandle | None = None
        self._changed = False
        self._saving: asyncio.Future[None] | None = None
        self._saved_at = clock()
        self._warned_at = float("-inf")

    # Life.

    async def start(self, handed_over: Sequence[socket.socket] = ()) -> None:
        """Read what was learned and listen, if `egress.listen` says where, at the sockets that were handed over for it.

        Raises:
            OSError: if it cannot be listened at.
        """
        if self._state_directory is not None:
            read_known(self._state_directory, self.known)
        if self.settings.listen is not None:
            self._handed_over = bool(handed_over)
            for listening in handed_over or (None,):
                await self._listen(self.settings.listen.address, listening)
        self._take_turn()

    async def _listen(self, text: str, handed_over: socket.socket | None) -> None:
        place = parse_listen_address(text)
        self._local = place.path is not None
        if place.path is not None:
            self._servers.append(await unix_listener.listen(self._new, handed_over or place.path, _BACKLOG))
            self.address = f"unix:{place.path}"
            return
        if handed_over is not None:
            server = await self.loop.create_server(self._new, sock=handed_over, backlog=_BACKLOG)
        else:
            server = await self.loop.create_server(
                self._new, place.host, place.port or 0, backlog=_BACKLOG, reuse_address=True
            )
        self._servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        self.address = written(host, port)
        self.dialer.own = (host, port)

    def _new(self) -> HomeserverConnection:
        return HomeserverConnection(self)

    def let_go(self) -> None:
        """Accept nothing more at sockets that were handed over: they are another process's now."""
        if self._handed_over:
            for server in self._servers:
                server.close()

    async def stop(self, grace_s: float = 0.0) -> None:
        """Accept nothing more, let what is under way end within `grace_s`, then end all and write what was learned."""
        self.stopping = True
        for server in self._servers:
            server.close()
        ends_at = self.clock() + grace_s
        while self.clock() < ends_at and any(map(_is_busy, self.connections)):  # noqa: ASYNC110  (once in a life)
            await asyncio.sleep(0.02)
        waits = [one.waits for one in self.connections if one.waits is not None]
        for connection in list(self.connections):
            connection.close()
        for far in list(self.left):
            far.transport.abort()
        self.kept.close()
        if self._turn is not None:
            self._turn.cancel()
        await asyncio.sleep(0)  # aborted transports end in the next turn of the loop, and cancel what waits
        await asyncio.gather(*waits, return_exceptions=True)
        await self._save()

    def reload(self, settings: EgressSettings) -> None:
        """Take other settings: all but `listen`, which needs a restart. What is under way goes on; kept connections end."""
        self.settings = settings.model_copy(update={"listen": self.settings.listen})
        self._clients = Networks(settings.clients)
        self.known.name(settings.gateways)
        self.deliveries.configure(settings)
        self.dialer.guard = _guard(settings)
        self.dialer.connect_timeout_s = settings.connect_timeout_seconds
        self.resolver.timeout_s = settings.resolve_timeout_seconds
        for origin in list(self.kept.sweep):
            if origin.exchange is None:
                self.kept.discard(origin)

    def statistics(self) -> EgressStatistics:
        """Take the picture that status and metrics show."""
        return egress_statistics(self)

    # From the data path.

    def learn(self, host: str, port: int) -> None:
        """A pusher to this gateway was accepted (`policies.push_egress.gateway_of`), or a delivery to it was seen."""
        name = normal_host(host)
        if name is not None and self.known.learn(name, port):
            self._changed = True

    def federation_peer(self, host: str) -> None:
        """A federation request that this server signed got a 2xx (`policies.push_egress.peer_of`)."""
        name = normal_host(host)
        if name is not None and self.known.learn_peer(name):
            self._changed = True

    # For connections.

    def opened(self, connection: HomeserverConnection) -> None:
        """Take a connection in, if it is the homeserver's and there is room; what is used least makes room."""
        self.accepted_total += 1
        peer = connection.transport.get_extra_info("peername")
        if not self._local and not self._is_client(peer):
            self._stranger(peer)
            connection.transport.abort()
            return
        if len(self.connections) + len(self.left) >= self.settings.max_connections and not self._make_room():
            self.refused_total["connections_full"] += 1
            connection.transport.abort()
            return
        self.connections.add(connection)

    def closed(self, connection: HomeserverConnection) -> None:
        """Forget a connection that ended."""
        self.connections.remove(connection)

    def refused(self, reason: Told, request: ProxyRequest | None) -> None:
        """Count and log an answer of our own."""
        self.refused_total[reason.value] += 1
        place = written(request.host, request.port) if request is not None else None
        _log.info("egress refused", reason=reason.value, status=reason.status, host=place)

    @staticmethod
    def key_of(host: str, port: int) -> str:
        """Name the circuit of a tunnel's gateway."""
        return gateway_key(host, port, tls=True)

    def _is_client(self, peer: object) -> bool:
        if not isinstance(peer, tuple):
            return False  # reset before it was accepted
        address = parse_address(str(peer[0]))
        return address is not None and address in self._clients

    def _stranger(self, peer: object) -> None:
        self.strangers_total += 1
        now = self.clock()
        if isinstance(peer, tuple) and now - self._warned_at >= _STRANGER_WARN_S:
            self._warned_at = now
            _log.warning(
                "not one of egress.clients", address=str(peer[0]), strangers_total=self.strangers_total
            )

    def _make_room(self) -> bool:
        """Close what is idle for longest: what a homeserver left, a tunnel, or a connection between two requests."""
        if len(self.left):
            min(self.left, key=lambda one: one.deadline_at).transport.abort()
            return True
        idle = [one for one in self.connections if one.tunnel is not None and one.tunnel.is_idle]
        if idle:
            min(idle, key=lambda one: one.tunnel.last_at if one.tunnel else 0.0).close()
            return True
        parked = [one for one in self.connections if one.state is ConnectionState.HEAD]
        if parked:
            min(parked, key=lambda one: one.deadline_at).close()
            return True
        return False

    # The timer.

    def _take_turn(self) -> None:
        now = self.clock()
        try:
            for connection in self.connections.passed(now):
                connection.deadline_passed(now)
            for origin in self.kept.sweep.passed(now):
                origin.deadline_passed(now)
            for far in self.left.passed(now):
                far.transport.abort()
            if self._changed and now - self._saved_at >= _SAVE_EVERY_S and self._saving is None:
                self._saving = self.loop.create_task(self._save())
        finally:
            self._turn = self.loop.call_later(_TURN_S, self._take_turn)

    async def _save(self) -> None:
        """Write what was learned, if that changed; a failure is told, and tried again with the next change."""
        if not self._changed or self._state_directory is None:
            self._saving = None
            return
        self._changed = False
        self._saved_at = self.clock()
        data = rendered(self.known)
        try:
            await self.loop.run_in_executor(None, write_whole, self._state_directory, data)
        except OSError as error:
            _log.warning("learned gateways cannot be written", error=str(error))
        finally:
            self._saving = None


def _guard(settings: EgressSettings) -> AddressGuard:
    return AddressGuard(ipaddress.ip_network(text) for text in settings.allow)


def _is_busy(connection: HomeserverConnection) -> bool:
    """Tell whether somebody waits for an answer on it."""
    if connection.tunnel is not None:
        return not connection.tunnel.is_idle
    return connection.state is ConnectionState.BUSY
