"""HTTP/1.1 from a client's side, as little as a bench needs: requests as bytes, a kept-alive connection, raw sockets.

`Connection` is an asyncio protocol so that the moment of the answer's last byte is taken in the read itself. Every socket is
bound to the client's own loopback address; its port is chosen when it connects, so each address has all ports for itself.
"""

import asyncio
import socket
import time
from typing import NamedTuple, cast

HOST = "bench"
_BIND_ADDRESS_NO_PORT = 24  # IP_BIND_ADDRESS_NO_PORT of linux/in.h; Python names it from 3.12 on
_MAX_HEAD_BYTES = 65_536
_STALE_WITHIN_S = 0.1  # later, it was not the closing of an idle connection that crossed our request


class Answer(NamedTuple):
    """A complete response: its status, its body's bytes, and when its last byte was read (perf_counter)."""

    status: int
    body_bytes: int
    at: float


def request(
    method: str, target: str, token: str | None, body: bytes | None = None, fields: str = ""
) -> bytes:
    """Build a request; `body` gets its Content-Length, `fields` are whole lines."""
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: {HOST}\r\n{authorization}{fields}{length}\r\n"
    return head.encode() + (body or b"")


def get(target: str, token: str | None) -> bytes:
    """Build a GET."""
    return request("GET", target, token)


async def dial(address: str, port: int, receive_bytes: int | None = None) -> socket.socket:
    """Connect from `address`; `receive_bytes` bounds what the kernel takes for a client that does not read."""
    sock = socket.socket()
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.bind((address, 0))
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


class StaleError(ConnectionResetError):
    """A kept-alive connection was closed just as it was used again: nobody's fault, and asked again by any client."""


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    __slots__ = (
        "_answer",
        "_asked",
        "_asked_at",
        "_left",
        "_length",
        "_received",
        "_status",
        "_transport",
        "_until_close",
        "is_open",
    )  # fmt: skip

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[Answer] | None = None
        self._received = b""
        self._status = 0
        self._length = 0
        self._left = 0
        self._until_close = False
        self._asked = 0
        self._asked_at = 0.0
        self.is_open = False

    @classmethod
    async def opened(cls, address: str, port: int) -> "Connection":
        """Connect from `address`."""
        sock = await dial(address, port)
        try:
            _, connection = await asyncio.get_running_loop().create_connection(cls, sock=sock)
        except BaseException:
            sock.close()
            raise
        return connection

    def ask(self, request_bytes: bytes) -> asyncio.Future[Answer]:
        """Send; the future ends with the answer, or with ConnectionError."""
        self._answer = asyncio.get_running_loop().create_future()
        if self.is_open:
            self._asked += 1
            self._asked_at = time.perf_counter()
            self._transport.write(request_bytes)
        else:
            self._answer.set_exception(StaleError("closed before the request"))
        return self._answer

    def close(self) -> None:
        """Leave at once, whatever is under way."""
        if self.is_open:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take a head, then as many bytes as it promised."""
        if not self._status:
            self._received += data
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                if len(self._received) > _MAX_HEAD_BYTES:
                    self._transport.abort()
                return
            head, data = self._received[: end + 2], self._received[end + 4 :]
            self._received = b""
            self._begin(head)
        self._left -= len(data)
        if self._left <= 0 and not self._until_close:
            self._finish()

    def connection_lost(self, _: Exception | None) -> None:
        """End what is under way."""
        self.is_open = False
        if self._status and self._until_close:
            self._finish()
        elif self._answer is not None and not self._answer.done():
            silent = not self._status and not self._received
            stale = silent and self._asked > 1 and time.perf_counter() - self._asked_at < _STALE_WITHIN_S
            self._answer.set_exception(StaleError() if stale else ConnectionResetError("no complete answer"))

    def _begin(self, head: bytes) -> None:
        self._status = int(head[9:12])
        fields = head.lower()
        at = fields.find(b"\r\ncontent-length:")
        self._until_close = at < 0 and self._status not in (204, 304)
        self._length = self._left = int(fields[at + 17 : fields.index(b"\r\n", at + 17)]) if at >= 0 else 0

    def _finish(self) -> None:
        answer = Answer(self._status, self._length - self._left, time.perf_counter())
        self._status = 0
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


class Client:
    """Who asks one thing after another on one connection, connecting again where it was closed."""

    __slots__ = ("_address", "_connection", "_port")

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._connection: Connection | None = None

    async def ask(self, request_bytes: bytes) -> Answer:
        """Send and wait for the answer. Sends once more where a connection used before was closed meanwhile, as clients do.

        Raises:
            OSError: no connection, or it ended before the answer did.
        """
        if self._connection is not None and self._connection.is_open:
            try:
                return await self._ask_on(self._connection, request_bytes)
            except StaleError:
                pass
        self._connection = await Connection.opened(self._address, self._port)
        return await self._ask_on(self._connection, request_bytes)

    def leave(self) -> None:
        """Close the connection at once."""
        if self._connection is not None:
            self._connection.close()

    @staticmethod
    async def _ask_on(connection: Connection, request_bytes: bytes) -> Answer:
        try:
            return await connection.ask(request_bytes)
        except BaseException:  # also where we are cancelled: an answer that still comes belongs to nobody
            connection.close()
            raise
