"""However a tunnel, a request or the way out itself ends, no socket, place or connection of it is left."""

import asyncio
import contextlib
import socket
import struct
from pathlib import Path

from egress_support import PATIENCE_S, get, in_world, until

RESET = struct.pack("ii", 1, 0)
PIECE = bytes(16_384)


def sockets():
    """How many sockets this process has open."""
    number = 0
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            number += str(one.readlink()).startswith("socket:")
    return number


class Far:
    """A host that does only what it is told: reads nothing, sends nothing, ends nothing by itself."""

    def __init__(self, world):
        world.hosts.append(self)
        self.listening = socket.socket()
        self.listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(16)
        self.listening.setblocking(False)
        self.port = self.listening.getsockname()[1]
        self.accepted = []

    async def accept(self):
        async with asyncio.timeout(PATIENCE_S):
            sock, _ = await asyncio.get_running_loop().sock_accept(self.listening)
        self.accepted.append(sock)
        return sock

    def stop(self):
        for sock in (self.listening, *self.accepted):
            sock.close()


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


async def tunnel_to(world, far):
    """A tunnel; gives the homeserver's end, the host's, and ours."""
    client, reason = await world.connect("a.test", far.port)
    assert client is not None, reason
    ours = world.ours(client).tunnel
    return client, await far.accept(), ours


async def full_tunnel_to(world, far):
    """A tunnel in which bytes wait in our transport, too few to pause the homeserver."""
    client, sock, ours = await tunnel_to(world, far)
    ours.far.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    while not ours.far.transport.get_write_buffer_size():
        await world.pass_through(client, PIECE)
    assert not ours.far.full
    return client, sock, ours


def test_a_host_that_takes_nothing_more_keeps_no_socket_once_both_sides_have_ended():
    async def tell(world):
        far = Far(world)
        before = sockets()
        held = [await full_tunnel_to(world, far) for _ in range(3)]
        for client, sock, _ in held:
            sock.shutdown(socket.SHUT_WR)
            assert await client.ended() == b""
            client.close()
        await until(lambda: not len(world.egress.connections))
        assert len(world.egress.left) == 3, "they may take what is theirs for a while"
        await world.later(11)
        await until(lambda: not len(world.egress.left))
        for sock in far.accepted:
            sock.close()
        assert sockets() == before

    in_world(tell)


def test_a_host_that_takes_its_last_bytes_late_gets_all_of_them():
    async def tell(world):
        far = Far(world)
        client, sock, _ = await full_tunnel_to(world, far)
        sock.shutdown(socket.SHUT_WR)
        assert await client.ended() == b""
        client.close()
        await until(lambda: not len(world.egress.connections))
        await world.later(9)
        read = 0
        async with asyncio.timeout(PATIENCE_S):
            while data := await asyncio.get_running_loop().sock_recv(sock, 65_536):
                assert not any(data)
                read += len(data)
        assert read > 0
        assert read % len(PIECE) == 0
        await until(lambda: not len(world.egress.left))

    in_world(tell)


def test_stopping_waits_for_no_host_that_takes_nothing_more():
    async def tell(world):
        far = Far(world)
        before = sockets()
        client, sock, _ = await full_tunnel_to(world, far)
        sock.shutdown(socket.SHUT_WR)
        assert await client.ended() == b""
        client.close()
        await until(lambda: not len(world.egress.connections))
        await world.egress.stop()
        assert not len(world.egress.left)
        sock.close()
        assert sockets() == before - 1, "nor does it listen"

    in_world(tell)


def test_hosts_that_take_nothing_more_count_as_connections_and_are_the_first_to_go():
    async def tell(world):
        far = Far(world)
        client, sock, _ = await full_tunnel_to(world, far)
        sock.shutdown(socket.SHUT_WR)
        assert await client.ended() == b""
        client.close()
        await until(lambda: not len(world.egress.connections))
        assert len(world.egress.left) == 1
        first, _, _ = await tunnel_to(world, far)
        await tunnel_to(world, far)
        await until(lambda: not len(world.egress.left))
        assert len(world.egress.connections) == 2
        assert not first.reader.at_eof()

    in_world(tell, max_connections=2)


def test_a_homeserver_that_leaves_without_taking_its_answer_keeps_no_connection():
    size = 4 * 1024 * 1024

    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        before = sockets()
        client = await world.client()
        client.writer.transport.pause_reading()
        client.send(get("a.test", host.port))
        await until(lambda: any(one._full for one in world.egress.connections))
        client.writer.write_eof()
        await until(lambda: all(one.transport.is_closing() for one in world.egress.connections))
        assert len(world.egress.connections) == 1, "it may take what is written for a while"
        await world.later(3)
        await until(lambda: not len(world.egress.connections))
        client.reset()
        await until(lambda: sockets() == before)

    in_world(tell)
