"""Clients that send, read and leave as no honest client would, and what the others keep of it.

Where the kernel's buffers would hide Fairgate's, they are made small; where two things must fall into one turn of the event
loop, both are done before it turns.
"""

import asyncio
import os
import re
import socket
import struct

import pytest
from clients import (
    GET,
    SHORT_S,
    THINKS,
    LateReader,
    answer_of,
    answer_request,
    bodies_in,
    connect,
    connections_of,
    post,
    requests_arrived,
    whoami_of,
)
from harness import OK, Answer, refusal_in, turn, until
from structlog.testing import capture_logs

from proxy import clock
from proxy.http1.life_cycle import State

LONG_POLL = b"GET /_matrix/client/v3/sync?since=1&timeout=3000000 HTTP/1.1\r\nHost: a\r\n\r\n"
ONE_CONNECTION = {"homeserver": {"connections": 1}}
ONE_WORKER_EACH = {"lanes": {"requests": {"share": 0.01}}}
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
ENDS_WITH_CLIENT = {"homeserver": {"profile": "tuwunel"}}  # every GET


# Who asks.


def send_and_reset_before_anybody_accepts(port):
    with socket.socket() as sock:
        sock.bind(("127.0.0.7", 0))
        sock.connect(("127.0.0.1", port))
        sock.send(post(0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_client_that_is_gone_before_it_is_accepted_is_not_taken_for_one_of_this_machine(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((Answer(OK),) * 20)
        line, _ = await connect(world)
        listener = world.application.listener
        for number in range(6):
            line.received.clear()
            await line.send(GET)  # so that a connection to the homeserver is at hand
            await line.until_received(OK)
            send_and_reset_before_anybody_accepts(world.port)
            await until(lambda number=number: listener.accepted_total >= number + 2)
            await until(lambda: len(listener.connections) == 1)
        line.received.clear()
        await line.send(GET)
        await line.until_received(OK)
        line.transport.abort()
        await until(lambda: not connections_of(world))
        assert [request.data[:6] for request in script.requests] == [b"GET /x"] * 7

    in_a_world(tell)


def test_a_client_at_another_address_is_named_by_it(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            sock.bind(("127.0.0.7", 0))
            await loop.sock_connect(sock, ("127.0.0.1", world.port))
            await loop.sock_sendall(sock, GET)
            await requests_arrived(world, 1)
        assert re.findall(rb"\r\nX-Forwarded-For: ([^\r]*)", script.requests[0].data) == [b"127.0.0.7"]

    in_a_world(tell)


def test_a_client_at_a_unix_socket_is_of_this_machine(in_a_world, tmp_path):
    path = str(tmp_path / "fairgate")

    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, path)
            await loop.sock_sendall(sock, GET)
            await requests_arrived(world, 1)
        assert re.findall(rb"\r\nX-Forwarded-For: ([^\r]*)", script.requests[0].data) == [b"127.0.0.1"]

    in_a_world(tell, listen=[{"address": "127.0.0.1:0"}, {"address": f"unix:{path}"}])


# Deadlines of what was sent ahead.


async def answer_until_the_client_is_full(world, connection):
    """End an answer with the very bytes that fill the client's side, so that the next request has to wait for it."""
    transport = connection.transport
    transport.set_write_buffer_limits(high=1 << 20)
    homeserver = world.homeserver.lines[0].transport
    homeserver.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b"fa0\r\n" + b"x" * 4000 + b"\r\n"
    while transport.get_write_buffer_size() < 60_000:
        assert not connection.client_full
        homeserver.write(piece)
        await turn()
    transport.set_write_buffer_limits(high=transport.get_write_buffer_size())
    homeserver.write(b"0\r\n\r\n")
    await until(lambda: connection.state is State.PARKED)
    assert connection.client_full


def test_a_request_sent_ahead_of_a_late_reader_has_its_own_deadline(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS, THINKS))
        client = await LateReader.connect(world)
        await client.send(GET.replace(b"/x", b"/_matrix/client/versions") + GET)
        await requests_arrived(world, 1)
        await answer_until_the_client_is_full(world, client.connection)
        assert len(world.homeserver.script.requests) == 1
        received = await client.read_until(b"}")
        assert refusal_in(received.partition(b"\r\n0\r\n\r\n")[2]) == (504, "upstream_timeout")

    in_a_world(tell, lanes={"requests": {"deadline_seconds": SHORT_S}})


def test_a_request_sent_ahead_of_a_late_reader_is_served(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS, Answer(OK)))
        client = await LateReader.connect(world)
        await client.send(GET * 2)
        await requests_arrived(world, 1)
        await answer_until_the_client_is_full(world, client.connection)
        received = await client.read_until(OK)
        assert received.endswith(b"\r\n0\r\n\r\n" + OK)
        [upstream] = world.application._upstreams
        assert upstream.deadline_at <= clock.now() + 180

    in_a_world(tell)


# Leaving.


@pytest.mark.parametrize(
    "ahead",
    [b"G", GET[:-1], b"\r\nG", GET, GET + b"G", GET * 500, post(40_000), b"\x82" * 20_000],
    ids=["G", "part", "line", "whole", "more", "requests", "body", "frames"],
)
@pytest.mark.parametrize("first", [LONG_POLL, UPGRADE], ids=["poll", "upgrade"])
def test_what_waits_for_long_ends_with_what_its_client_sends_whatever_lies_behind_it(
    in_a_world, first, ahead
):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        line, _ = await connect(world)
        await line.send(first + ahead)
        await requests_arrived(world, 1)
        line.transport.write_eof()
        await until(lambda: not connections_of(world))
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)

    in_a_world(tell, **ENDS_WITH_CLIENT)


def test_a_long_poll_that_begins_when_its_client_has_ended_is_not_waited_for(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        line, connection = await connect(world)
        await line.send(GET + LONG_POLL + GET)
        await requests_arrived(world, 1)
        line.transport.write_eof()
        await until(lambda: connection.ended)
        answer_request(world, 0, OK)
        assert await line.until_ended() == OK
        await world.until_nothing_is_left()
        assert len(world.homeserver.script.requests) == 1

    in_a_world(tell)


def test_a_long_poll_whose_body_comes_with_its_clients_end_is_not_waited_for(in_a_world):
    target = b"/_matrix/client/unstable/org.matrix.simplified_msc3575/sync?timeout=30000"
    request = post(10, target=target, fields=b"Authorization: Bearer t\r\n")

    async def tell(world):
        world.homeserver.begin((THINKS,)).whoami = whoami_of({b"t": "@alice:a"})
        line, _ = await connect(world)
        line.transport.write(request)
        line.transport.write_eof()
        await until(lambda: not connections_of(world))
        await world.until_nothing_is_left()

    in_a_world(tell)


@pytest.mark.parametrize("turns", [0, 1, 5])
@pytest.mark.parametrize(
    "ahead", [b"G", GET, GET + b"G", post(99_999)], ids=["part", "whole", "more", "much"]
)
def test_a_long_poll_of_a_client_that_ends_and_then_resets_gives_its_place_back(in_a_world, ahead, turns):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        line, connection = await connect(world)
        await line.send(LONG_POLL + ahead)
        await requests_arrived(world, 1)
        await until(lambda: connection.kept or connection.state is State.CLOSED)
        line.transport.write_eof()
        for _ in range(turns):
            await turn()
        if line.ended is None:  # Fairgate saw it go, and may have ended it already
            line.reset()
        await until(lambda: not connections_of(world))
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)
        assert len(world.homeserver.script.requests) == 1

    in_a_world(tell, **ENDS_WITH_CLIENT)


def test_many_that_left_their_long_polls_hold_nothing(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 20 + (Answer(OK),))
        for number in range(20):
            line, _ = await connect(world)
            await line.send(LONG_POLL + b"G")
            await requests_arrived(world, number + 1)
            line.transport.write_eof()
            await turn()
            line.reset()
        await world.until_nothing_is_left()
        line, _ = await connect(world)
        await line.send(GET)
        await line.until_received(OK)

    in_a_world(tell, homeserver={"connections": 4, **ENDS_WITH_CLIENT["homeserver"]})


# Sending ahead.


@pytest.mark.parametrize("size", [15_000, 20_000, 30_000, 60_000])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_long_head_sent_ahead_is_served(in_a_world, size, at_once):
    head = b"GET /y HTTP/1.1\r\nHost: a\r\nCookie: " + b"c" * size + b"\r\n\r\n"

    async def tell(world):
        script = world.homeserver.begin((THINKS, Answer(OK)))
        line, connection = await connect(world)
        await line.send(GET + head if at_once else GET)
        await requests_arrived(world, 1)
        if not at_once:
            await line.send(head)
        await until(lambda: connection.paused or b"\r\n\r\n" in connection.kept)
        assert len(connection.kept) <= 32_768
        world.homeserver.lines[0].transport.write(OK)
        await line.until_received(OK + OK)
        assert bytes(line.received) == OK + OK
        assert [request.data[:6] for request in script.requests] == [b"GET /x", b"GET /y"]
        assert b"Cookie: " + b"c" * size + b"\r\n" in script.requests[1].data

    in_a_world(tell)


@pytest.mark.parametrize("first", [100, 16_000])
def test_no_more_than_32_kib_are_kept_of_what_a_client_sends_behind_a_request_that_waits(in_a_world, first):
    sent = GET + post(1_000_000)

    async def tell(world):
        script = world.homeserver.begin((THINKS, Answer(OK), Answer(OK)))
        busy, _ = await connect(world)
        await busy.send(GET)
        await requests_arrived(world, 1)
        line, connection = await connect(world)
        await line.send(sent[:first])
        await until(lambda: world.workers() == (1, 0, 1))
        await line.send(sent[first:])
        await until(lambda: connection.paused)
        for _ in range(20):
            await turn()
            assert len(connection.kept) <= 32_768
        answer_request(world, 0, OK)
        await line.until_received(OK + OK)
        assert script.requests[2].data.endswith(b"\r\n\r\n" + b"y" * 1_000_000)

    in_a_world(tell, **ONE_WORKER_EACH)


@pytest.mark.parametrize("first", [100, 16_000])
def test_a_body_is_read_while_its_request_waits_and_holds_no_worker(in_a_world, first):
    sent = post(1_000_000)

    async def tell(world):
        script = world.homeserver.begin((THINKS, Answer(OK)))
        busy, _ = await connect(world)
        await busy.send(GET)
        await requests_arrived(world, 1)
        line, connection = await connect(world)
        await line.send(sent[:first])
        await until(lambda: connection.exchange is not None)
        assert world.workers() == (1, 0, 0)
        await line.send(sent[first:])
        await until(lambda: world.workers() == (1, 0, 1))
        assert connection.exchange.body.left == 0
        answer_request(world, 0, OK)
        await line.until_received(OK)
        assert script.requests[1].data.endswith(b"\r\n\r\n" + b"y" * 1_000_000)
        await world.until_nothing_is_left()

    in_a_world(tell, **ONE_WORKER_EACH)


def test_what_a_client_does_not_read_waits_where_it_is_charged_but_for_four_kib(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(answer_of(8_000_000)),))
        client = await LateReader.connect(world)
        sizes = []
        connection = client.connection

        def unsent():
            sizes.append(connection.transport.get_write_buffer_size())
            return sizes[-1]

        await client.send(GET)
        await until(lambda: unsent() and connection.client_full)
        for _ in range(100):
            await turn()
            unsent()
        reading = asyncio.ensure_future(client.read_until(b"x" * 1_000))
        received = await reading
        while len(received) < 8_000_000:
            unsent()
            received += await client.read_until(b"x")
        assert len(bodies_in(received)[0]) == 8_000_000
        assert max(sizes) <= 4096

    in_a_world(tell)


# Half-closing.


@pytest.mark.parametrize("size", [10, 600_000, 5_000_000])
def test_all_that_was_asked_before_the_end_is_answered_whole(in_a_world, size):
    async def tell(world):
        world.homeserver.begin((Answer(answer_of(size)), Answer(answer_of(7))))
        client = await LateReader.connect(world)
        await client.send(GET * 2, then_end=True)
        await requests_arrived(world, 1)
        await until(lambda: client.connection.client_full or size == 10)
        bodies = bodies_in(await client.read_all())
        assert [len(body) for body in bodies] == [size, 7]

    in_a_world(tell)


@pytest.mark.parametrize("size", [10, 60_000, 300_000, 4_000_000])
@pytest.mark.parametrize("rest", [b"", b"\r\n", b"\r\nG", b"G"])
def test_what_follows_the_last_whole_request_costs_nothing_of_its_answer(in_a_world, size, rest):
    async def tell(world):
        world.homeserver.begin((Answer(answer_of(7)), Answer(answer_of(size))))
        client = await LateReader.connect(world)
        await client.send(GET * 2 + rest, then_end=True)
        await requests_arrived(world, 2)
        await until(lambda: client.connection.client_full or size < 1_000_000)
        assert [len(body) for body in bodies_in(await client.read_all())] == [7, size]

    in_a_world(tell)


def test_an_end_of_stream_behind_a_lone_empty_line_counts_as_having_left(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        client = await LateReader.connect(world)
        await client.send(GET + b"\r\n", then_end=True)
        assert await client.read_all() == b""
        await until(lambda: world.pool_places()[2:] == (0, 0))

    in_a_world(tell)


@pytest.mark.parametrize("size", [0, 100, 10_000, 300_000])
def test_an_end_of_stream_behind_a_body_that_was_read_counts_as_having_left(in_a_world, size):
    async def tell(world):
        script = world.homeserver.begin((THINKS, Answer(OK)))
        busy, _ = await connect(world)
        await busy.send(GET)
        await requests_arrived(world, 1)
        line, _ = await connect(world)
        line.transport.write(post(size))
        await until(lambda: world.workers() == (1, 0, 1))
        line.transport.write_eof()
        assert await line.until_ended() == b""
        assert world.workers() == (1, 0, 0)
        answer_request(world, 0, OK)
        await world.until_nothing_is_left()
        assert len(script.requests) == 1

    in_a_world(tell, **ONE_WORKER_EACH)


# Connections to the homeserver that are no longer good.


def its_deadline_passes(world):
    [upstream] = world.application._upstreams
    upstream.deadline_passed(clock.now())


def its_homeserver_ends_it(world):
    ours = world.homeserver.lines[0].transport.get_extra_info("socket")
    with socket.socket(fileno=os.dup(ours.fileno())) as sock:
        sock.shutdown(socket.SHUT_WR)


def its_homeserver_says_what_nobody_asked(world):
    ours = world.homeserver.lines[0].transport.get_extra_info("socket")
    os.write(ours.fileno(), OK)


@pytest.mark.parametrize(
    "what_happens", [its_deadline_passes, its_homeserver_ends_it, its_homeserver_says_what_nobody_asked]
)
def test_a_connection_that_just_went_bad_is_not_used(in_a_world, what_happens):
    async def tell(world):
        script = world.homeserver.begin((Answer(OK), Answer(OK)))
        line, _ = await connect(world)
        await line.send(GET)
        await line.until_received(OK)
        await until(lambda: world.pool_places() == (0, 1, 0, 0))
        line.received.clear()
        what_happens(world)
        line.transport.write(post(3))
        await line.until(lambda: len(line.received) >= len(OK))
        assert bytes(line.received) == OK
        assert [request.connection for request in script.requests if request.whole] == [0, 1]
        pool = world.application.pool
        assert pool.failing_for_s(clock.now()) == 0
        assert pool.statistics().failed_total == 0

    in_a_world(tell)


# What `Connection` names.


def test_naming_the_request_id_does_not_take_it_away(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        line, _ = await connect(world)
        await line.send(GET[:-2] + b"Connection: x-request-id\r\nX-Request-Id: abc\r\n\r\n")
        await line.until_received(OK)
        assert re.findall(rb"\r\nX-Request-Id: ([^\r]*)", script.requests[0].data) == [b"abc"]

    in_a_world(tell)


def test_naming_too_many_fields_is_refused(in_a_world):
    async def tell(world):
        line, _ = await connect(world)
        fields = b"".join(b"Connection: a%d\r\n" % number for number in range(95))
        await line.send(GET[:-2] + fields + b"\r\n")
        assert refusal_in(await line.until_ended()) == (431, "head_too_large")
        assert world.homeserver.lines == []

    in_a_world(tell)


def test_who_sent_a_malformed_head_is_told(in_a_world):
    async def tell(world):
        line = await world.connect("127.0.0.7")
        with capture_logs() as lines:
            await line.send(b"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
            await line.until_ended()
        (told,) = (line for line in lines if line["event"] == "refused")
        assert (told["reason"], told["address"]) == ("bad_length", "127.0.0.7")

    in_a_world(tell, log={"access": "refused"})
