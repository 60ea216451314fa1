"""Answers on the wire: taken from the homeserver as fast as they come, kept for a client that is slow, up to a point."""

import asyncio
import hashlib
import random

import pytest
from clients import GET, LateReader, connections_of, get, requests_arrived, some_turns, whoami_of
from harness import OK, Answer, until

from proxy import clock
from proxy.http1.life_cycle import State

SIZE = 5_000_000
BODY = random.Random(7).randbytes(SIZE)
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE + BODY
CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%b\r\n" % (50_000, BODY[at : at + 50_000]) for at in range(0, SIZE, 50_000))
    + b"0\r\n\r\n"
)
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY
#: More than sockets take: what is kept is kept by Fairgate.
ANSWERS = {
    "of a length": Answer(LENGTH),
    "of chunks": Answer(CHUNKS),
    "until the end": Answer(UNTIL_CLOSE, then="close"),
}
NO_SPOOL = {"responses": {"spool_bytes": 0}}


def stores(world):
    return world.application.pipeline.bodies.answers


async def asked(world, answer, request=GET):
    """Let a client that reads nothing ask; give it once its answer is being kept."""
    world.homeserver.begin((answer, Answer(OK)))
    client = await LateReader.connect(world)
    await client.send(request)
    await requests_arrived(world, 1)
    await until(lambda: client.connection.client_full)
    return client


async def read_slowly(client, size):
    """Read so many bytes, with turns of the loop in between."""
    received = bytearray()
    while len(received) < size:
        data = await client.read_some(min(70_000, size - len(received)))
        if not data:
            break
        received += data
        await asyncio.sleep(0)
    return bytes(received)


def same(received, expected):
    return hashlib.sha256(received).digest() == hashlib.sha256(expected).digest()


# A slow reader.


@pytest.mark.parametrize("name", ANSWERS)
def test_a_client_that_reads_nothing_holds_no_worker_and_gets_every_byte_when_it_reads(in_a_world, name):
    answer = ANSWERS[name]

    async def tell(world):
        client = await asked(world, answer)
        await until(lambda: world.workers() == (0, 0, 0))
        await until(lambda: world.pool_places()[2:] == (0, 0))
        assert client.connection.state is State.IN_SERVICE
        assert world.application._spool.statistics().disk_bytes > SIZE // 2
        assert stores(world).memory.statistics().taken_bytes < 2_000_000
        received = await read_slowly(client, len(answer.data))
        assert same(received, answer.data)
        await world.until_nothing_is_left()

    in_a_world(tell)


def test_the_connection_to_the_homeserver_serves_others_meanwhile(in_a_world):
    async def tell(world):
        client = await asked(world, Answer(LENGTH))
        await until(lambda: world.pool_places() == (0, 1, 0, 0))
        line = await world.connect("127.0.0.12")
        await line.send(GET)
        await line.until_received(OK)
        line.transport.abort()
        assert [request.connection for request in world.homeserver.script.requests] == [0, 0]
        assert same(await read_slowly(client, len(LENGTH)), LENGTH)

    in_a_world(tell, homeserver={"connections": 1})


@pytest.mark.parametrize("name", ["of a length", "of chunks"])
def test_a_slow_client_is_parked_without_its_outbox_and_asks_again(in_a_world, name):
    answer = ANSWERS[name]

    async def tell(world):
        client = await asked(world, answer)
        assert same(await read_slowly(client, len(answer.data)), answer.data)
        await until(lambda: client.connection.state is State.PARKED)
        assert client.connection.outbox is None
        await client.send(GET)
        assert await client.read_until(OK) == OK

    in_a_world(tell)


def test_a_request_sent_ahead_waits_until_the_answer_before_it_is_taken(in_a_world):
    async def tell(world):
        client = await asked(world, Answer(LENGTH), GET + get(b"/y"))
        await until(lambda: world.workers() == (0, 0, 0))
        await some_turns()
        assert len(world.homeserver.script.requests) == 1
        assert same(await read_slowly(client, len(LENGTH)), LENGTH)
        assert await client.read_until(OK) == OK
        assert len(world.homeserver.script.requests) == 2

    in_a_world(tell)


# Too slow.


@pytest.mark.parametrize(
    ("token", "good_s", "late_s"), [(None, 9, 40), (b"t", 29, 200)], ids=["anybody", "an account"]
)
def test_a_client_that_takes_nothing_is_let_go_with_all_that_was_kept(in_a_world, token, good_s, late_s):
    request = get(b"/_matrix/client/v3/joined_rooms", token=token)

    async def tell(world):
        world.homeserver.begin((Answer(LENGTH),)).whoami = whoami_of({b"t": "@alice:a"})
        client = await LateReader.connect(world)
        await client.send(request)
        await until(lambda: client.connection.client_full)
        connection, began_at = client.connection, clock.now()
        await until(lambda: world.workers() == (0, 0, 0))
        connection.deadline_passed(began_at + good_s)
        await some_turns()
        assert connections_of(world) == [connection]
        connection.deadline_passed(clock.now() + late_s)
        await until(lambda: connections_of(world) == [])
        await world.until_nothing_is_left()

    in_a_world(tell)


def test_a_client_that_takes_enough_is_not_let_go(in_a_world):
    async def tell(world):
        client = await asked(world, Answer(LENGTH))
        connection, began_at = client.connection, clock.now()
        taken = await read_slowly(client, 2_000_000)
        await some_turns()
        assert connection.client_full
        connection.deadline_passed(began_at + 60)  # 16 KiB/s of 50 s, and it took more than twice as much
        rest = await read_slowly(client, len(LENGTH) - len(taken))
        assert same(taken + rest, LENGTH)

    in_a_world(tell)


def test_what_the_kernel_took_for_a_client_does_not_count_as_taken_by_it(in_a_world):
    async def tell(world):
        client = await asked(world, Answer(LENGTH))
        connection, began_at = client.connection, clock.now()
        await until(lambda: world.workers() == (0, 0, 0))

        def moved(after_s):
            connection.deadline_passed(began_at + after_s)
            return connection.outbox.floor.moved_bytes

        assert moved(1) <= 600_000  # what lay in the kernels of both sides when it began to be slow
        taken = await read_slowly(client, 1_000_000)
        await until(lambda: moved(2) >= 300_000)
        assert moved(2) <= len(taken) + 600_000

    in_a_world(tell)


# Leaving.


@pytest.mark.parametrize("when", ["while it comes", "when it is kept whole"])
def test_a_slow_client_that_leaves_takes_nothing_with_it(in_a_world, when):
    async def tell(world):
        client = await asked(world, Answer(LENGTH if when != "while it comes" else LENGTH[:3_000_000]))
        if when == "when it is kept whole":
            await until(lambda: world.workers() == (0, 0, 0))
        else:
            await until(lambda: world.application._spool.statistics().disk_bytes > 1_000_000)
        await until(lambda: world.application._spool.statistics().open_files == 1)
        client.close()
        await until(lambda: connections_of(world) == [])
        assert world.application.pipeline.bodies.answers.open == 0
        if when == "while it comes":
            assert world.workers() == (0, 1, 0)
            world.homeserver.lines[0].transport.write(LENGTH[3_000_000:])
        await world.until_nothing_is_left()

    in_a_world(tell)


def test_an_answer_that_breaks_off_in_the_spool_is_cut_for_a_slow_client(in_a_world):
    async def tell(world):
        client = await asked(world, Answer(LENGTH[:3_000_000], then="close"))
        with pytest.raises(ConnectionResetError):
            await client.read_all()
        await world.until_nothing_is_left()

    in_a_world(tell)


# Where nothing can be kept.


@pytest.mark.parametrize("name", ANSWERS)
def test_a_full_spool_is_back_pressure_and_every_byte_comes_later(in_a_world, name):
    answer = ANSWERS[name]

    async def tell(world):
        client = await asked(world, answer)
        await some_turns(100)
        assert world.workers() == (1, 0, 0), "the homeserver still has it"
        assert stores(world).memory.statistics().taken_bytes < 1_500_000
        assert world.application._spool.statistics().disk_bytes == 0
        assert same(await read_slowly(client, len(answer.data)), answer.data)
        await world.until_nothing_is_left()

    in_a_world(tell, **NO_SPOOL)


def test_back_pressure_ends_with_its_client_and_the_homeserver_goes_on(in_a_world):
    async def tell(world):
        client = await asked(world, Answer(LENGTH))
        await some_turns(100)
        assert world.workers() == (1, 0, 0)
        client.close()
        await world.until_nothing_is_left()
        assert world.pool_places() == (0, 1, 0, 0), "its answer was read to the end"

    in_a_world(tell, **NO_SPOOL)


def test_the_homeservers_deadline_does_not_run_while_its_client_is_slow(in_a_world):
    async def tell(world):
        client = await asked(world, Answer(LENGTH))
        await some_turns(100)
        [upstream] = world.application._upstreams
        upstream.deadline_passed(clock.now() + 100_000)
        assert same(await read_slowly(client, len(LENGTH)), LENGTH)

    in_a_world(tell, **NO_SPOOL)
