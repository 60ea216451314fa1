"""One place that is listened at: its sockets, and what stands before HTTP there."""

import asyncio
import select
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from proxy import unix_listener
from proxy.addresses import Address, parse_listen_address
from proxy.downstream.connection import ClientConnection
from proxy.downstream.proxy_header import ProxyHeaderReader, give
from proxy.downstream.settings import ListenSettings
from proxy.downstream.tls import TlsLayer
from proxy.downstream.tls_connection import TlsClientConnection
from proxy.downstream.tls_context import TlsContexts
from proxy.http1.life_cycle import State
from proxy.identity.networks import UNIX

if TYPE_CHECKING:
    from proxy.downstream.listener import Listener

BACKLOG: Final = 2048
#: Most bytes that the kernel keeps unsent for one client (TCP_NOTSENT_LOWAT); by default it takes up to 3.7 MiB.
_NOT_SENT_BYTES: Final = 131_072


class Entrance:
    """Makes a connection's protocols: PROXY header, TLS, HTTP, in this order as far as they are asked for."""

    def __init__(self, listener: "Listener", settings: ListenSettings) -> None:
        """Load the certificates.

        Raises:
            CertificateError: if one cannot be used.
        """
        self.address = ""
        self._listener = listener
        self._settings = settings
        self._is_local = False
        self._servers: list[asyncio.Server] = []
        #: Kept of sockets that were handed over, to see who waits there once we accept no longer.
        self._doors: list[socket.socket] = []
        self.contexts = None if settings.tls is None else TlsContexts(settings.tls)

    async def open(self, handed_over: Sequence[socket.socket] = ()) -> None:
        """Listen, at the sockets that were handed over if there are some; `address` is then what is listened at.

        Raises:
            OSError: if it is taken or not ours.
        """
        address = parse_listen_address(self._settings.address)
        self._is_local = address.path is not None
        self._doors = [listening.dup() for listening in handed_over]
        for listening in handed_over or (None,):
            self._servers.append(await self._listen(address, self._protocol(), listening))

    async def _listen(
        self,
        address: Address,
        protocol: Callable[[], asyncio.BaseProtocol],
        handed_over: socket.socket | None,
    ) -> asyncio.Server:
        loop = self._listener.loop
        if address.path is not None:
            self.address = f"unix:{address.path}"
            return await unix_listener.listen(protocol, handed_over or address.path, BACKLOG)
        if handed_over is not None:
            server = await loop.create_server(protocol, sock=handed_over, backlog=BACKLOG)
        else:
            server = await loop.create_server(
                protocol, address.host, address.port or 0, backlog=BACKLOG, reuse_address=True
            )
        host, port = server.sockets[0].getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for listening in server.sockets:  # what is accepted inherits it
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _NOT_SENT_BYTES)
        return server

    def watch(self, queued: select.poll) -> None:
        """Have `queued` tell of clients that wait to be accepted."""
        for server in self._servers:
            for listening in server.sockets:
                queued.register(listening.fileno(), select.POLLIN)

    def watch_doors(self, queued: select.poll) -> None:
        """Have `queued` tell of clients that wait for another process, where listening sockets were handed over."""
        for door in self._doors:
            queued.register(door.fileno(), select.POLLIN)

    def close(self) -> None:
        """Listen no longer."""
        for server in self._servers:
            server.close()

    def close_doors(self) -> None:
        """Look no longer who waits for another process."""
        for door in self._doors:
            door.close()
        self._doors.clear()

    # Who comes in.

    def _protocol(self) -> Callable[[], asyncio.BaseProtocol]:
        if self._settings.proxy_protocol:
            return self._before_header
        return self._http if self.contexts is None else self._before_tls

    def _before_header(self) -> ProxyHeaderReader:
        return ProxyHeaderReader(self._new(State.PROXY_HEADER), self._listener.admission, self._named)

    def _before_tls(self) -> TlsLayer:
        return self._tls(self._new(State.HELLO))

    def _http(self) -> asyncio.BaseProtocol:
        return self._new(State.FIRST_BYTE).as_protocol()

    def _named(self, connection: ClientConnection, rest: bytes) -> None:
        """The PROXY header is read: go on with what comes behind it."""
        transport = connection.transport
        if self.contexts is not None:
            connection.begin_tls()
            self._tls(connection).stand_on(transport, rest)
        else:
            connection.begin_http(anew=False)
            transport.set_protocol(connection.as_protocol())
            give(connection, rest)

    def _tls(self, connection: ClientConnection) -> TlsLayer:
        return TlsLayer(connection, cast(TlsContexts, self.contexts), self._listener.handshakes)

    def _new(self, state: State) -> ClientConnection:
        sort = ClientConnection if self.contexts is None else TlsClientConnection
        connection = sort(self._listener, state)
        if self._is_local:  # the peer has no address, and is on this machine
            connection.asker = self._listener.pipeline.client_keys.resolve(UNIX)
        return connection
