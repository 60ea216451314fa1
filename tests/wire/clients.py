"""Clients as no library makes them, and what tests say and hear through them."""

import asyncio
import json
import re
import socket
from urllib.parse import unquote

from harness import PATIENCE_S, Answer, turn, until

from proxy import clock

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
SHORT_S = 0.15
#: The homeserver took the request, and thinks; the test writes the answer on its line.
THINKS = Answer(b"")


def answer_of(size):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size


def post(size, *, target=b"/x", fields=b""):
    head = b"POST %b HTTP/1.1\r\nHost: a\r\n%bContent-Length: %d\r\n\r\n" % (target, fields, size)
    return head + b"y" * size


def get(target=b"/x", *, token=None, fields=b""):
    authorization = b"" if token is None else b"Authorization: Bearer %b\r\n" % token
    return b"GET %b HTTP/1.1\r\nHost: a\r\n%b%b\r\n" % (target, authorization, fields)


def field(answer, name):
    match = re.search(rb"\r\n" + name + rb": ([^\r]*)\r\n", answer)
    return match and match[1].decode()


def target_of(request):
    return request.data.split(b" ")[1]


def bodies_in(data):
    """Take answers apart by their lengths; nothing may be left over."""
    bodies = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        assert end
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        size = int(re.search(rb"\r\nContent-Length: ([0-9]+)", head)[1])
        assert len(data) >= size
        bodies.append(data[:size])
        data = data[size:]
    return bodies


def hints_of(answer):
    """Retry-After in seconds and retry_after_ms, which must name the same moment."""
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    seconds = int(field(answer, b"Retry-After"))
    assert body["errcode"] == "M_LIMIT_EXCEEDED"
    assert isinstance(body["retry_after_ms"], int)
    assert 1000 <= body["retry_after_ms"] <= 60_000
    assert seconds == -(-body["retry_after_ms"] // 1000)
    assert field(answer, b"Access-Control-Allow-Origin") == "*"
    assert "Retry-After" in field(answer, b"Access-Control-Expose-Headers")
    assert field(answer, b"Cache-Control") == "no-store"
    return seconds


def connections_of(world):
    return list(world.application.listener.connections)


async def connection_to(world, address):
    """Give Fairgate's side of the connection that a client has from `address`."""

    def found():
        return [c for c in connections_of(world) if c.transport.get_extra_info("peername") == address]

    await until(lambda: len(found()) == 1)
    return found()[0]


async def connect(world, address="127.0.0.1"):
    """Give both sides of a new connection."""
    line = await world.connect(address)
    world.ends.callback(line.transport.abort)
    return line, await connection_to(world, line.transport.get_extra_info("sockname"))


async def ask(world, request, address="127.0.0.1"):
    """Send a request on a new connection; give the client's side."""
    line = await world.connect(address)
    world.ends.callback(line.transport.abort)
    await line.send(request)
    return line


async def requests_arrived(world, number):
    await until(lambda: len(world.homeserver.script.requests) >= number)


def whoami_of(accounts, *, unknown=401):
    """Answer look-ups by token; `accounts` gives each its account, a status, or what to say of `user_id`."""

    def answer(request):
        token = re.search(rb"\r\nAuthorization: Bearer ([^\r]*)", request)[1]
        asked = re.search(rb"[?&]user_id=([^& ]*)", request.partition(b"\r\n")[0])
        account = accounts.get(token, unknown)
        if callable(account):
            account = account(None if asked is None else unquote(asked[1].decode()))
        if isinstance(account, int):
            return with_body(account, b'{"errcode":"M_UNKNOWN_TOKEN","error":"who?"}')
        return with_body(200, json.dumps({"user_id": account, "device_id": "D"}).encode())

    return answer


def with_body(status, body):
    return b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def flows_of(world):
    """Give who was ever counted under what."""
    return {flow.flow for flow in world.share.statistics(clock.now()).top_flows}


def answer_lookup(world, number, answer):
    """Let the homeserver answer the look-up that came as the `number`th."""
    lookup = world.homeserver.script.lookups[number]
    world.homeserver.lines[lookup.connection].transport.write(answer)


async def lookups_arrived(world, number):
    await until(lambda: len(world.homeserver.script.lookups) >= number)


async def some_turns(number=20):
    """Let everything happen that would happen by now."""
    for _ in range(number):
        await turn()


def answer_request(world, number, answer):
    """Let the homeserver answer the request that came as the `number`th."""
    request = world.homeserver.script.requests[number]
    world.homeserver.lines[request.connection].transport.write(answer)


class LateReader:
    """A client that reads only when told to, with little room in the kernel on either side."""

    def __init__(self, sock, connection):
        self._sock = sock
        self.connection = connection

    @classmethod
    async def connect(cls, world):
        sock = world.ends.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", world.port))
        connection = await connection_to(world, sock.getsockname())
        theirs = connection.transport.get_extra_info("socket")
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        return cls(sock, connection)

    async def send(self, data, *, then_end=False):
        await asyncio.get_running_loop().sock_sendall(self._sock, data)
        if then_end:
            self._sock.shutdown(socket.SHUT_WR)

    def close(self):
        self._sock.close()

    async def read_some(self, size=1 << 18):
        """Give what is there, at least a byte; nothing at the connection's end."""
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.get_running_loop().sock_recv(self._sock, size)

    async def read_until(self, end):
        """Read until `end` ends it, or the connection's end where it is empty."""
        received = bytearray()
        while not (end and received.endswith(end)):
            data = await self.read_some()
            if not data:
                break
            received += data
        return bytes(received)

    async def read_all(self):
        return await self.read_until(b"")
