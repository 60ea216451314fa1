"""Too many connections, on real sockets: who gives way, and who does not."""

import asyncio
import subprocess
import sys

import pytest
from harness import OK, Answer, Line, until

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


async def connect_from(world, address):
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(Line, "127.0.0.1", world.port, local_addr=(address, 0))
    return line


async def fill(world, *addresses):
    """Open a connection from each address, one after the other."""
    lines = []
    for address in addresses:
        lines.append(await connect_from(world, address))
        await until(lambda: world.application.listener.accepted_total == world.connected + len(lines))
    world.connected += len(lines)
    return lines


def room(**connections):
    return {"connections": {"first_byte_seconds": 30, **connections}}


def turned_away(world):
    totals = world.application.listener.statistics().turned_away_total
    return {name: total for name, total in totals.items() if total}


@pytest.fixture
def in_a_room(in_a_world):
    def run(tell, **settings):
        async def counting(world):
            world.connected = 0
            await tell(world)

        in_a_world(counting, **settings)

    return run


def leave(*lines):
    for line in lines:
        line.transport.abort()


async def served(world, line):
    """Ask, and get an answer."""
    world.homeserver.begin((Answer(OK),))
    line.received.clear()
    await line.send(GET)
    await line.until_received(OK)
    assert bytes(line.received) == OK


def test_a_new_client_displaces_the_longest_waiting_of_the_address_with_most(in_a_room):
    async def tell(world):
        honest = await fill(world, "127.0.0.9")
        hoard = await fill(world, *["127.0.0.2"] * 3)
        more = await fill(world, "127.0.0.3", "127.0.0.4")
        assert await hoard[0].until_ended() == b""
        assert await hoard[1].until_ended() == b""
        for line in (*honest, hoard[2], *more):
            await served(world, line)
        assert turned_away(world) == {"evicted": 2}
        leave(*honest, *hoard, *more)

    in_a_room(tell, **room(max=4))


def test_a_parked_connection_gives_way_and_one_in_service_does_not(in_a_room):
    async def tell(world):
        busy, parked = await fill(world, *["127.0.0.2"] * 2)
        world.homeserver.begin((Answer(OK), Answer(b"", after=b"never")))
        await parked.send(GET)
        await parked.until_received(OK)
        await busy.send(GET + b"later")
        await until(lambda: world.application.listener.states()["in_service"] == 1)
        newcomer = await fill(world, "127.0.0.3")
        assert await parked.until_ended() == OK
        assert turned_away(world) == {"evicted": 1}
        leave(busy, *newcomer)

    in_a_room(tell, **room(max=2))


def test_a_new_client_is_refused_where_nobody_can_give_way(in_a_room):
    async def tell(world):
        busy = await fill(world, "127.0.0.2", "127.0.0.3")
        world.homeserver.begin((Answer(b"", after=b"never"),) * 2)
        for line in busy:
            await line.send(GET)
        await until(lambda: world.application.listener.states()["in_service"] == 2)
        (newcomer,) = await fill(world, "127.0.0.4")
        assert await newcomer.until_ended() == b""
        assert turned_away(world) == {"full": 1}
        leave(*busy)

    in_a_room(tell, **room(max=2))


def test_who_was_served_and_waits_again_waits_behind_the_others(in_a_room):
    async def tell(world):
        first, second = await fill(world, *["127.0.0.2"] * 2)
        await served(world, first)
        newcomer = await fill(world, "127.0.0.3")
        assert await second.until_ended() == b""
        await served(world, first)
        leave(first, *newcomer)

    in_a_room(tell, **room(max=2))


def test_the_cap_by_address_binds_only_above_three_quarters(in_a_room):
    async def tell(world):
        hoard = await fill(world, *["127.0.0.2"] * 6)
        assert turned_away(world) == {}
        (refused,) = await fill(world, "127.0.0.2")
        assert await refused.until_ended() == b""
        others = await fill(world, "127.0.0.3", "127.0.0.4")
        for line in (*hoard, *others):
            await served(world, line)
        assert turned_away(world) == {"per_address": 1}
        leave(*hoard, *others)

    in_a_room(tell, **room(max=8, per_address=2))


def test_a_cap_is_lifted_when_others_have_left(in_a_room):
    async def tell(world):
        hoard = await fill(world, *["127.0.0.2"] * 6)
        refused = await fill(world, "127.0.0.2")
        await refused[0].until_ended()
        leave(*hoard[:3])
        await until(lambda: len(world.application.listener.connections) == 3)
        assert not world.application.listener.statistics().crowded
        again = await fill(world, "127.0.0.2")
        await served(world, again[0])
        leave(*hoard[3:], *again)

    in_a_room(tell, **room(max=8, per_address=2))


def test_a_trusted_proxy_is_neither_capped_nor_displaced(in_a_room):
    async def tell(world):
        ingress = await fill(world, *["127.0.0.2"] * 3)
        (client,) = await fill(world, "127.0.0.3")
        more = await fill(world, "127.0.0.2")  # displaces the client: nobody else may be
        assert await client.until_ended() == b""
        for line in (*ingress, *more):
            await served(world, line)
        (refused,) = await fill(world, "127.0.0.3")
        assert await refused.until_ended() == b""
        assert turned_away(world) == {"evicted": 1, "full": 1}
        leave(*ingress, *more)

    in_a_room(tell, clients={"trusted_proxies": ["127.0.0.2"]}, **room(max=4, per_address=1))


def test_clients_behind_a_proxy_header_are_capped_each_by_its_own_address(in_a_room):
    async def tell(world):
        lines = await fill(world, *["127.0.0.1"] * 4)
        for line, client in zip(lines, (7, 7, 8, 9), strict=True):
            await line.send(b"PROXY TCP4 192.0.2.%d 192.0.2.1 1 1\r\n" % client)
        await until(lambda: world.application.listener.states()["proxy_header"] == 0)
        (late,) = await fill(world, "127.0.0.1")
        await late.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 1 1\r\n")
        assert await late.until_ended() == b""
        await served(world, lines[3])
        assert turned_away(world) == {"per_address": 1}
        leave(*lines)

    listen = [{"address": "127.0.0.1:0", "proxy_protocol": True}]
    in_a_room(tell, listen=listen, clients={"trusted_proxies": ["127.0.0.1"]}, **room(max=5, per_address=2))


def test_a_trusted_proxys_connection_is_parked_for_longer(in_a_room):
    async def tell(world):
        proxy, client = await fill(world, "127.0.0.2", "127.0.0.3")
        await served(world, proxy)
        await served(world, client)
        assert await client.until_ended() == OK
        await served(world, proxy)
        leave(proxy)

    short = room(keep_alive_idle_seconds=0.15)
    in_a_room(tell, clients={"trusted_proxies": ["127.0.0.2"]}, **short)


def test_a_crowd_that_comes_and_goes_leaves_nothing_behind(in_a_room):
    async def tell(world):
        for _ in range(5):
            lines = await fill(world, *["127.0.0.2"] * 9)
            assert world.application.listener.statistics().crowded
            leave(*lines)
            await until(lambda: not len(world.application.listener.connections))
        assert not world.application.listener.statistics().crowded

    in_a_room(tell, **room(max=8))


HOARD = """
import socket, sys
port, addresses, each = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
held = []
for number in range(each):
    for last in range(addresses):
        sock = socket.socket()
        sock.bind((f"127.0.1.{last + 1}", 0))
        sock.connect(("127.0.0.1", port))
        held.append(sock)
print("here", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_honest_clients_are_served_beside_ten_thousand_connections_that_wait(in_a_room):
    """Twenty addresses fill the house with 500 silent connections each; then come clients."""

    async def tell(world):
        hoarders = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOARD, str(world.port), "20", "500",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(60):
                assert await hoarders.stdout.readline() == b"here\n"
            listener = world.application.listener
            await until(lambda: len(listener.connections) == 10_000)
            lines = []
            for number in range(100):
                line = await connect_from(world, f"127.0.2.{number + 1}")
                await served(world, line)
                lines.append(line)
            assert len(listener.connections) == 10_000
            assert turned_away(world) == {"evicted": 100}
            for line in lines:  # nobody displaced them
                await served(world, line)
            leave(*lines)
        finally:
            hoarders.stdin.close()
            await hoarders.wait()
        await until(lambda: not len(listener.connections))

    in_a_room(tell, **room(max=10_000))
