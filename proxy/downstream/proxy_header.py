"""Before HTTP and TLS, where a listener expects it: the PROXY header of a proxy in front (behaviour.md §1.6).

Only trusted peers get here (`admission`). The header has to be whole within the first-byte deadline, which goes on behind it.
The client it names is the connection's from then on; LOCAL and UNKNOWN leave it the proxy's own.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from proxy.downstream.client_socket import BUFFER, small_buffer
from proxy.downstream.connection import ClientConnection
from proxy.http1.life_cycle import State
from proxy.http1.proxy_header import BadProxyHeaderError, read_proxy_header

if TYPE_CHECKING:
    from proxy.downstream.admission import Admission


class ProxyHeaderReader(asyncio.BufferedProtocol):
    """Reads one header, then has `opened(connection, rest)` go on with what came behind it."""

    __slots__ = ("_admission", "_connection", "_kept", "_opened", "get_buffer")

    def __init__(
        self,
        connection: ClientConnection,
        admission: "Admission",
        opened: Callable[[ClientConnection, bytes], None],
    ) -> None:
        self.get_buffer = small_buffer  # type: ignore[method-assign]  # of each its own
        self._connection = connection
        self._admission = admission
        self._opened = opened
        self._kept = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the header."""
        self._connection.connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        """Go on as soon as the header is whole."""
        connection = self._connection
        if connection.state is not State.PROXY_HEADER:
            return
        data = self._kept = self._kept + BUFFER[:nbytes].tobytes()
        try:
            header = read_proxy_header(data)
        except BadProxyHeaderError as error:
            self._refuse(str(error))
            return
        if header is None:
            return
        if header.source is not None:
            self._admission.named(connection, header.source)
        if connection.state is State.PROXY_HEADER:
            self._opened(connection, data[header.length :])

    def _refuse(self, what: str) -> None:
        connection = self._connection
        self._admission.turned_away.warn(
            "proxy_header",
            f"a trusted proxy's connection {what}; is its PROXY protocol switched on for this listener?",
            peer=None if connection.asker is None else connection.asker.key,
        )
        connection.turn_away()

    def eof_received(self) -> bool:
        """Nobody has asked for anything yet."""
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended before HTTP."""
        self._connection.connection_lost(exc)


def give(connection: ClientConnection, data: bytes) -> None:
    """Let a connection read what was read before it was its turn; not more than fits the shared buffer."""
    if data:
        BUFFER[: len(data)] = data
        connection.buffer_updated(len(data))
