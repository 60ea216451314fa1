"""The floor: a relay of httptools on uvloop that parses both heads, forwards the bytes and checks nothing.

It has no limits, deadlines, refusals or forwarded fields, and trusts both sides: it is for measuring only.

Usage: bare_relay.py PORT UPSTREAM_PORT
"""

import asyncio
import sys
from typing import cast

import httptools
import uvloop


class Relay:
    """What all connections share: the idle connections to the upstream."""

    def __init__(self, upstream_port: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle: list[Upstream] = []
        self.upstream_port = upstream_port

    async def connect(self, client: "Client") -> None:
        """Open a connection to the upstream for `client`, and send what waited."""
        _, upstream = await self.loop.create_connection(
            lambda: Upstream(self), "127.0.0.1", self.upstream_port
        )
        client.use(upstream)


class _Side(asyncio.Protocol):
    """Either side: a transport, and the other one's reading to pause."""

    __slots__ = ("peer", "transport")

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.peer: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        """Stop the other side's bytes."""
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let them come again."""
        if self.peer is not None:
            self.peer.transport.resume_reading()


class Client(_Side):
    """A client's connection; one request at a time."""

    __slots__ = ("_parser", "_relay", "_waiting")

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: list[bytes] | None = None

    def on_url(self, url: bytes) -> None:
        """Be told the target, as a proxy needs to be."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Be told a field."""

    def data_received(self, data: bytes) -> None:
        """Forward to the upstream; the first bytes of a request choose a connection."""
        self._parser.feed_data(data)
        if self.peer is not None:
            self.peer.transport.write(data)
        elif self._waiting is not None:
            self._waiting.append(data)
        else:
            self._waiting = [data]
            if self._relay.idle:
                self.use(self._relay.idle.pop())
            else:
                self._relay.loop.create_task(self._relay.connect(self))

    def use(self, upstream: "Upstream") -> None:
        """Have this connection for the request that waits."""
        self.peer = upstream
        upstream.peer = self
        waiting, self._waiting = self._waiting, None
        upstream.transport.write(b"".join(waiting or ()))

    def connection_lost(self, _: Exception | None) -> None:
        """End the upstream's connection with it if a request is under way."""
        if self.peer is not None:
            self.peer.transport.abort()


class Upstream(_Side):
    """A connection to the upstream; back to the idle ones with each answer's end."""

    __slots__ = ("_complete", "_parser", "_relay")

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay
        self._parser = httptools.HttpResponseParser(self)
        self._complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Be told a field."""

    def on_message_complete(self) -> None:
        """Be told the end."""
        self._complete = True

    def data_received(self, data: bytes) -> None:
        """Forward to the client."""
        client = self.peer
        if client is None:
            return
        self._parser.feed_data(data)
        if self._complete:
            self._complete = False
            client.peer = self.peer = None
            self._relay.idle.append(self)
        client.transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        """Leave the idle ones, or end the client's connection."""
        if self.peer is not None:
            self.peer.transport.abort()
        elif self in self._relay.idle:
            self._relay.idle.remove(self)


async def _serve(port: int, upstream_port: int) -> None:
    relay = Relay(upstream_port)
    server = await relay.loop.create_server(lambda: Client(relay), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
