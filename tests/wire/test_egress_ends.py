"""However a tunnel, a request or the way out itself ends, no socket, place or connection of it is left."""

import asyncio
import contextlib
import itertools
import socket
import struct
from pathlib import Path

import pytest
from egress_support import PATIENCE_S, delivery, get, in_world, turns, until

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

    def __init__(self, world, backlog=16):
        world.hosts.append(self)
        self.listening = socket.socket()
        self.listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(backlog)
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


async def left_at(world, far):
    """A full tunnel whose host and homeserver have both ended; give the host's side, which has not taken all."""
    client, sock, _ = await full_tunnel_to(world, far)
    sock.shutdown(socket.SHUT_WR)
    assert await client.ended() == b""
    client.close()
    await until(lambda: not len(world.egress.connections))
    return sock


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
        sock = await left_at(world, far)
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
        sock = await left_at(world, far)
        await world.egress.stop()
        assert not len(world.egress.left)
        sock.close()
        assert sockets() == before - 1, "nor does it listen"

    in_world(tell)


def test_hosts_that_take_nothing_more_count_as_connections_and_are_the_first_to_go():
    async def tell(world):
        far = Far(world)
        await left_at(world, far)
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
        await until(lambda: any(one.full for one in world.egress.connections))
        client.writer.write_eof()
        await until(lambda: all(one.transport.is_closing() for one in world.egress.connections))
        assert len(world.egress.connections) == 1, "it may take what is written for a while"
        await world.later(3)
        await until(lambda: not len(world.egress.connections))
        client.reset()
        await until(lambda: sockets() == before)

    in_world(tell)


@pytest.mark.parametrize("through", ["plain", "tunnel"])
def test_a_host_that_takes_nothing_pauses_a_homeserver_that_sent_ahead_while_it_was_dialed(through):
    size = 32 * 1024 * 1024

    async def tell(world):
        far = Far(world)
        place = b"a.test:%d" % far.port
        client = await world.client()
        await until(lambda: len(world.egress.connections))
        ours = world.ours(client)
        connect = world.egress.dialer.connect

        async def connect_late(*arguments):
            await until(lambda: ours._paused)
            transport, address = await connect(*arguments)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            return transport, address

        world.egress.dialer.connect = connect_late
        head = b"POST http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n" % (place, place, size)
        client.send((b"CONNECT %s HTTP/1.0\r\n\r\n" % place if through == "tunnel" else head) + bytes(size))
        await far.accept()
        await turns(500)
        far_side = ours.tunnel.far if ours.tunnel else ours._exchange.origin
        assert 0 < far_side.transport.get_write_buffer_size() < 512 * 1024

    in_world(tell)


# Every order in which a tunnel's two ends can send, half-close and reset.


STEPS = (
    lambda client, _: client.send(bytes(30_000)),
    lambda client, _: client.send(b"\x16\x03\x01\x00\x05hello"),
    lambda client, _: client.writer.write_eof(),
    lambda client, _: client.reset(),
    lambda _, sock: sock.send(bytes(30_000)),
    lambda _, sock: sock.shutdown(socket.SHUT_WR),
    lambda _, sock: reset(sock),
)


def left_over(world):
    """Connections, and what was given to deliveries and not given back."""
    figures = world.egress.statistics()
    deliveries = world.egress.deliveries
    return (
        len(world.egress.connections) + len(world.egress.left) + len(world.egress.kept.sweep),
        figures.deliveries_under_way + figures.deliveries_waiting,
        len(deliveries._cuttable) + len(deliveries._waiting),
    )


@pytest.mark.parametrize("gateway", [False, True])
@pytest.mark.parametrize("pause", [0, 5])
def test_in_whatever_order_its_ends_send_and_leave_nothing_of_a_tunnel_is_left(gateway, pause):
    async def tell(world):
        far = Far(world)
        before = sockets()
        if gateway:
            world.egress.learn("a.test", far.port)
        for steps in itertools.permutations(STEPS, 2):
            client, sock, _ = await tunnel_to(world, far)
            for step in steps:
                with contextlib.suppress(OSError, RuntimeError):  # it has left already
                    step(client, sock)
                await turns(pause)
            for after_s in (11, 100, 901):
                await world.later(after_s)
            await until(lambda: left_over(world) == (0, 0, 0))
            client.writer.transport.abort()
            sock.close()
            await until(lambda: sockets() == before)

    in_world(tell, failure_threshold=1000)


# Stopping.


async def a_head_has_begun(world, _far):
    client = await world.client()
    client.send(b"GET http://a.t")
    await until(lambda: world.ours(client)._kept)


async def a_host_is_dialed(world, far):
    for _ in range(4):
        sock = socket.socket()
        far.accepted.append(sock)
        sock.setblocking(False)
        sock.connect_ex(far.listening.getsockname())
    had = sockets()
    (await world.client()).send(b"CONNECT a.test:%d HTTP/1.0\r\n\r\n" % far.port)
    await until(lambda: sockets() == had + 3)  # the client's, ours for it, and the dial's


async def a_delivery_waits_for_its_answer(world, far):
    (await world.client()).send(delivery("a.test", far.port))
    await far.accept()


async def a_body_is_not_taken(world, far):
    client = await world.client()
    place = b"a.test:%d" % far.port
    head = b"POST http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: 9000000\r\n\r\n"
    client.send(head % (place, place) + bytes(9_000_000))
    await far.accept()
    await until(lambda: world.ours(client)._paused)


async def a_delivery_waits_for_its_place(world, far):
    world.egress.deliveries.places.note(world.key(far, "a.test"), None, answered=False)
    for _ in range(9):
        (await world.client()).send(b"CONNECT a.test:%d HTTP/1.0\r\n\r\n" % far.port)
    await until(lambda: world.egress.statistics().deliveries_waiting == 1)


async def early_bytes_fill_a_tunnel(world, far):
    client = await world.client()
    client.send(b"CONNECT a.test:%d HTTP/1.0\r\n\r\n" % far.port + bytes(9_000_000))
    await client.until(b"\r\n\r\n")
    await until(lambda: world.ours(client).tunnel.far.full)


async def a_host_has_ended_in_a_full_tunnel(world, far):
    client, sock, _ = await full_tunnel_to(world, far)
    sock.shutdown(socket.SHUT_WR)
    assert await client.ended() == b""


async def a_homeserver_has_ended_in_a_full_tunnel(world, far):
    client, _, ours = await full_tunnel_to(world, far)
    client.writer.write_eof()
    await until(lambda: ours._half_closed_at is not None)


@pytest.mark.parametrize(
    "while_",
    [
        a_head_has_begun,
        a_host_is_dialed,
        a_delivery_waits_for_its_answer,
        a_body_is_not_taken,
        a_delivery_waits_for_its_place,
        early_bytes_fill_a_tunnel,
        a_host_has_ended_in_a_full_tunnel,
        a_homeserver_has_ended_in_a_full_tunnel,
    ],
)
def test_stopping_leaves_nothing_while(while_):
    async def tell(world):
        before = sockets()
        far = Far(world, backlog=0)
        world.egress.learn("a.test", far.port)
        await while_(world, far)
        tests = len(far.accepted) + len(world.clients) + 1
        await world.egress.stop()
        assert sockets() <= before + tests - 1, "it has closed all of its own, where it listened, too"
        far.stop()
        for client in world.clients:
            client.writer.transport.abort()
        await until(lambda: sockets() == before - 1)
        assert left_over(world) == (0, 0, 0)

    in_world(tell)
