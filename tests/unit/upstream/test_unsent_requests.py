"""A request put off to the end of the turn is not lost with its connection (ADR 9): real sockets, one turn by hand."""

import asyncio
import socket

from proxy.errors import Reason
from proxy.http1.deadlines import DeadlineSweep
from proxy.http1.request_head import parse_request_head
from proxy.identity.client_key import ClientKeys
from proxy.identity.networks import Networks
from proxy.matrix.routes import find_endpoint
from proxy.upstream import connection as upstream
from proxy.upstream.exchange import Exchange
from proxy.upstream.pool import Pool

POST = b"POST /x HTTP/1.1\r\nHost: a\r\n\r\n"
STALE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"


class Client:
    """Keeps what it is refused with."""

    def __init__(self):
        self.reasons = []

    def refuse(self, reason):
        self.reasons.append(reason)


class Course:
    """Nothing comes behind the pool."""

    def ended(self, exchange, now):
        """There is nothing to give back."""


def exchange_of(client):
    head = parse_request_head(POST, max_fields=100, max_target_bytes=1024)
    asker = ClientKeys(trusted_proxies=Networks(())).resolve("192.0.2.1")
    return Exchange(client, asker, head, find_endpoint(head.method, head.target), POST, Course(), 60.0, 0.0)


async def tell():
    arrived = asyncio.get_running_loop().create_future()

    async def homeserver(reader, writer):
        arrived.set_result(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(homeserver, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = Pool(("127.0.0.1", port), limit=4, connect_timeout_s=5, idle_s=45, sweep=DeadlineSweep())
    ours, theirs = socket.socketpair()
    _, stale = await asyncio.get_running_loop().create_connection(
        lambda: upstream.UpstreamConnection(pool), sock=ours
    )
    pool._state.connecting += 1
    pool._connected(stale, Reason.UPSTREAM_UNREACHABLE)
    client = Client()
    pool.submit(exchange_of(client), 0.0)
    assert stale.unsent
    upstream._BUFFER[: len(STALE)] = STALE  # in the same turn: bytes that cannot be its answer
    stale.buffer_updated(len(STALE))
    async with asyncio.timeout(5):
        request = await arrived
    assert request.startswith(b"POST /x HTTP/1.1\r\n")
    assert client.reasons == []
    theirs.setblocking(False)
    assert theirs.recv(100) == b"", "the stale connection got nothing but its end"
    theirs.close()
    pool.close()
    server.close()
    await asyncio.sleep(0)


def test_bytes_that_come_before_a_request_is_sent_move_it_to_another_connection():
    asyncio.run(tell())
