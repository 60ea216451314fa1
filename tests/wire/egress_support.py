"""The way out between a scripted homeserver and scripted hosts, on loopback, with a clock that can jump."""

import asyncio
import contextlib
import json
import re
import socket
import ssl
import struct
import time
from collections import Counter
from pathlib import Path

import uvloop

from proxy.egress.egress import Egress
from proxy.egress.settings import EgressSettings

TLS = Path(__file__).parents[1] / "unit" / "egress" / "tls"
PATIENCE_S = 10.0
NOTIFICATION = b'{"notification":{"devices":[{"app_id":"a","pushkey":"pk1"}]}}'
CONTENT = b'{"rejected":[]}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" + CONTENT
SERVER_ERROR = b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}"


class Host:
    """A server: answers each request with `answer`, or with nothing while that is None. `requests` are as they came."""

    def __init__(self, answer=OK, *, version=None, close=False):
        self.answer = answer
        self.close = close
        self.version = version
        self.requests = []
        self.accepted = 0
        self.open = set()
        self.port = 0

    async def start(self, address="127.0.0.1", port=0):
        context = None
        if self.version is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / "leaf.pem", TLS / "leaf.key")
            context.minimum_version = context.maximum_version = self.version
        self.server = await asyncio.start_server(self._serve, address, port, ssl=context)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader, writer):
        self.accepted += 1
        self.open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                body = b""
                if length:
                    body = await reader.readexactly(int(length[1]))
                elif b"chunked" in head.lower():
                    body = await reader.readuntil(b"0\r\n\r\n")
                self.requests.append(head + body)
                if self.answer is not None:
                    writer.write(self.answer)
                if self.close:
                    break
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()

    def stop(self):
        self.server.close()
        for writer in list(self.open):
            writer.transport.abort()


class Client:
    """The homeserver's end of one connection to the way out, or of TLS in a tunnel of it."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.sock = writer.get_extra_info("socket")

    def send(self, data):
        self.writer.write(data)

    async def until(self, end):
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readuntil(end)

    async def answer(self):
        """Status and body of one answer with a length; Fairgate's own reason, or None, first."""
        head = await self.until(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
        body = await self.reader.readexactly(length)
        reason = re.search(rb"Fairgate-Reason: (\S+)", head)
        return reason and reason[1].decode(), int(head[9:12]), body

    async def ended(self):
        """All that still comes, until the other side ends or resets."""
        data = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(PATIENCE_S):
                while more := await self.reader.read(65536):
                    data += more
        return data

    def reset(self):
        """Leave as Synapse gives up: with a reset, and without a word of TLS."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self):
        self.writer.close()


class World:
    """One way out. Every name resolves to what `names` says, else to 127.0.0.1."""

    def __init__(self, settings, state_directory=None):
        self.settings = settings
        self.state_directory = state_directory
        self.skew = 0.0
        self.names = {}
        self.looked_up = Counter()
        self.hosts = []
        self.clients = []

    def clock(self):
        return time.monotonic() + self.skew

    def lookup(self, host):
        self.looked_up[host] += 1
        found = self.answer_for(host)
        if not found:
            raise OSError("no such name")
        return found

    def answer_for(self, host):
        return self.names.get(host, ["127.0.0.1"])

    async def start(self):
        loop = asyncio.get_running_loop()
        self.egress = Egress(
            EgressSettings(**self.settings),
            loop,
            self.clock,
            state_directory=self.state_directory,
            lookup=self.lookup,
        )
        await self.egress.start()
        self.port = int(self.egress.address.rpartition(":")[2])
        return self

    async def stop(self):
        await self.egress.stop()
        for client in self.clients:
            client.close()
        for host in self.hosts:
            host.stop()
        await turns()

    async def host(self, answer=OK, *, address="127.0.0.1", port=0, **about):
        host = await Host(answer, **about).start(address, port)
        self.hosts.append(host)
        return host

    async def hosts_at_one_port(self, address, other):
        """Two hosts; a port that is free at the one may be taken at the other."""
        while True:
            host = await self.host(address=address)
            with contextlib.suppress(OSError):
                return host, await self.host(address=other, port=host.port)

    async def client(self, local="127.0.0.1"):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(local, 0))
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    async def later(self, seconds):
        """Let time jump, and every deadline that has passed by then be acted on."""
        self.skew += seconds
        for _ in range(2):
            self.egress._turn.cancel()
            self.egress._take_turn()
        await turns()

    # What a homeserver does.

    async def deliver(self, host, name="push.test", client=None, body=NOTIFICATION):
        """One plain delivery; gives (reason, status, body)."""
        client = client or await self.client()
        client.send(delivery(name, host.port, body))
        return await client.answer()

    async def connect(self, name, port):
        """Ask for a tunnel; gives (client, None), or (None, reason)."""
        client = await self.client()
        client.send(b"CONNECT %s:%d HTTP/1.0\r\n\r\n" % (name.encode(), port))
        head = await client.until(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 200 "):
            return client, None
        return None, re.search(rb"Fairgate-Reason: (\S+)", head)[1].decode()

    async def tunnel(self, host, name="a.push.test"):
        """A tunnel with TLS in it."""
        client, reason = await self.connect(name, host.port)
        assert client is not None, reason
        context = ssl.create_default_context(cafile=TLS / "ca.pem")
        async with asyncio.timeout(PATIENCE_S):
            await client.writer.start_tls(context, server_hostname="a.push.test")
        return client

    async def deliver_tls(self, host, name="a.push.test", client=None):
        """One delivery in a tunnel that is answered; gives the tunnel for another."""
        client = client or await self.tunnel(host, name)
        client.send(origin_form())
        assert (await client.answer())[1:] == (200, CONTENT)
        return client

    async def begin_tls(self, host, name="a.push.test", client=None):
        """One delivery in a tunnel, of which the host has the request."""
        client = client or await self.tunnel(host, name)
        had = len(host.requests)
        client.send(origin_form())
        await until(lambda: len(host.requests) > had)
        await turns()
        return client

    def ours(self, client):
        """Our connection to a homeserver's end."""
        place = client.sock.getsockname()
        return next(
            one for one in self.egress.connections if one.transport.get_extra_info("peername") == place
        )

    async def pass_through(self, client, data):
        """Send in a tunnel, until the way out has it."""
        tunnel = self.ours(client).tunnel
        at = tunnel.last_at
        client.send(data)
        await until(lambda: tunnel.last_at > at)

    @property
    def failing(self):
        """The gateways with failures in a row: {gateway: (state, failures)}."""
        return {one.gateway: (one.state, one.failures) for one in self.egress.statistics().failing}

    def key(self, host, name="a.push.test", scheme="https"):
        return f"{scheme}://{name}:{host.port}"


def origin_form(body=NOTIFICATION):
    return b"POST /_matrix/push/v1/notify HTTP/1.1\r\nHost: a.push.test\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def delivery(name, port, body=NOTIFICATION, fields=b""):
    place = b"%s:%d" % (name.encode(), port)
    return (
        b"POST http://%s/_matrix/push/v1/notify HTTP/1.1\r\nContent-Length: %d\r\n%sHost: %s\r\n\r\n%s"
    ) % (place, len(body), fields, place, body)


def get(name, port, path="/", fields=b""):
    place = b"%s:%d" % (name.encode(), port)
    return b"GET http://%s%s HTTP/1.1\r\n%sHost: %s\r\n\r\n" % (place, path.encode(), fields, place)


async def until(condition):
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def turns(number=50):
    """Let the loop go round: each time it reads every socket that has something, so what was sent before is dealt with."""
    for _ in range(number):
        await asyncio.sleep(0)


def in_world(tell, *, state_directory=None, allow=("127.0.0.0/8",), **settings):
    """Run `tell(world)`; a fault of ours anywhere fails the test."""
    faults = []

    async def whole():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        world = await World(
            {"listen": {"address": "127.0.0.1:0"}, "allow": allow, **settings}, state_directory
        ).start()
        try:
            async with asyncio.timeout(30):
                await tell(world)
        finally:
            await world.stop()

    uvloop.run(whole())
    assert faults == []


def parsed(body):
    return json.loads(body)
