"""Operators' listeners with real sockets: silent and slow clients cost no more than a few descriptors for a while."""

import asyncio
import contextlib
import socket
from dataclasses import replace

import pytest
from test_operator_listeners import HOST, event, request, stream, with_listeners

from proxy.admin.connections import Limits

#: Short where the test waits for it to pass, long where it must not.
LONG = Limits(60, 60, 60, 60, 60, 60, 0.02)
SCRAPE = f"GET /metrics HTTP/1.1\r\n{HOST}\r\n\r\n".encode()


def dial(address, source="127.0.0.1", receive_bytes=None):
    sock = socket.socket()
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.bind((source, 0))
    host, _, port = address.rpartition(":")
    sock.connect((host, int(port)))
    sock.setblocking(False)
    return sock


async def is_ended(sock):
    """Wait until the other side closes or resets; what it sent before is given."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := await asyncio.get_running_loop().sock_recv(sock, 65536):
            data += piece
    return data


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - of counts that nobody tells of
            await asyncio.sleep(0.005)


def counts(listeners):
    return listeners.statistics()["metrics"]


@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.1\r\nHost"])
def test_hundreds_of_silent_connections_keep_no_scrape_out(said):
    async def dialogue(listeners, _):
        address = listeners.metrics_address
        with contextlib.ExitStack() as ends:
            for number in range(600):
                sock = ends.enter_context(dial(address, f"127.0.0.{number % 3 + 2}"))
                sock.sendall(said)
                if number % 100 == 99:  # a listening socket's backlog
                    accepted = number + 1
                    await until(
                        lambda: counts(listeners).open + counts(listeners).displaced_total == accepted  # noqa: B023
                    )
            assert counts(listeners).open == 32
            async with asyncio.timeout(1):
                for _ in range(10):
                    assert (await request(address, "GET /metrics", HOST))[0] == 200
                    assert (await request(address, "GET /healthz", HOST))[0] == 200
        await until(lambda: counts(listeners).open == 0)

    with_listeners(dialogue, limits=replace(LONG, connections=32))


def test_one_source_displaces_its_own_and_leaves_others_theirs():
    async def dialogue(listeners, _):
        address = listeners.metrics_address
        with contextlib.ExitStack() as ends:
            honest = ends.enter_context(dial(address, "127.0.0.9"))
            await until(lambda: counts(listeners).open == 1)
            crowd = [ends.enter_context(dial(address, "127.0.0.2")) for _ in range(40)]
            await until(lambda: counts(listeners).displaced_total == 33)
            assert [await is_ended(sock) for sock in crowd[:33]] == [b""] * 33
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(honest, SCRAPE)
            assert (await loop.sock_recv(honest, 15)) == b"HTTP/1.1 200 OK"

    with_listeners(dialogue, limits=replace(LONG, connections=8))


POST = b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize(
    ("limits", "said", "behind_the_answer"),
    [
        ({"head_s": 0.1}, b"", b""),
        ({"head_s": 0.1}, b"GET /metrics HTTP/1.1\r\nHost", b""),
        ({"head_s": 0.1}, SCRAPE, b"GET"),
        ({"idle_s": 0.1}, SCRAPE, b""),
        ({"body_s": 0.1}, POST, b""),
        ({"body_s": 0.1}, POST, b"half"),
    ],
)
def test_what_is_late_is_ended(limits, said, behind_the_answer):
    async def dialogue(listeners, _):
        loop = asyncio.get_running_loop()
        with dial(listeners.metrics_address) as sock:
            await loop.sock_sendall(sock, said)
            if behind_the_answer:
                await loop.sock_recv(sock, 15)
                await loop.sock_sendall(sock, behind_the_answer)
            async with asyncio.timeout(2):
                await is_ended(sock)
        await until(lambda: counts(listeners).open == 0)

    with_listeners(dialogue, limits=replace(LONG, **limits))


def test_a_head_that_comes_in_drops_is_late_all_the_same():
    async def dialogue(listeners, _):
        loop = asyncio.get_running_loop()
        with dial(listeners.metrics_address) as sock, contextlib.suppress(ConnectionError):
            await loop.sock_sendall(sock, SCRAPE[:-2] + b"A: ")
            async with asyncio.timeout(2):
                while True:
                    await loop.sock_sendall(sock, b"b")
                    await asyncio.sleep(0.01)
        assert counts(listeners).late_total == 1

    with_listeners(dialogue, limits=replace(LONG, head_s=0.1))


def test_a_request_that_is_not_answered_in_time_is_ended():
    async def dialogue(listeners, world):
        world.answering = asyncio.Event()
        with dial(listeners.metrics_address) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, SCRAPE.replace(b"/metrics", b"/readyz"))
            async with asyncio.timeout(2):
                assert await is_ended(sock) == b""
        world.answering.set()
        assert counts(listeners).late_total == 1

    with_listeners(dialogue, limits=replace(LONG, serving_s=0.1))


@pytest.mark.parametrize("requests", [1, 40])
def test_an_answer_that_nobody_takes_is_ended_however_long_it_is(requests):
    async def dialogue(listeners, _):
        with dial(listeners.metrics_address, receive_bytes=2048) as sock:
            await asyncio.get_running_loop().sock_sendall(sock, SCRAPE * requests)
            await until(lambda: counts(listeners).open == 1)
            await until(lambda: counts(listeners).open == 0)

    with_listeners(dialogue, limits=replace(LONG, taking_s=0.1, idle_s=0.1))


@pytest.mark.slow
def test_a_stream_goes_on_past_every_deadline_while_its_page_reads():
    async def dialogue(listeners, _):
        head, reader, writer = await stream(listeners.admin_address)
        assert " 200 " in head
        for _ in range(3):
            assert (await event(reader))[0] in ("history", "picture")
        assert listeners.statistics()["admin"].open == 1
        writer.transport.abort()

    with_listeners(dialogue, limits=Limits(4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.02))


def test_a_stream_that_nobody_reads_is_ended():
    async def dialogue(listeners, world):
        world.padding = "x" * 10_000_000
        with dial(listeners.admin_address, receive_bytes=2048) as sock:
            await asyncio.get_running_loop().sock_sendall(
                sock, f"GET /v1/events HTTP/1.1\r\n{HOST}\r\n\r\n".encode()
            )
            await until(lambda: listeners.statistics()["admin"].open == 1)
            await until(lambda: listeners.statistics()["admin"].open == 0)
        assert listeners.statistics()["admin"].late_total == 1

    with_listeners(dialogue, limits=replace(LONG, taking_s=0.1))


def test_a_stream_whose_client_sends_no_more_has_its_time_to_take_the_rest():
    async def dialogue(listeners, _):
        _, _, writer = await stream(listeners.admin_address)
        (connection,) = listeners._admin.connections._open.values()
        assert connection.deadline_at == float("inf")
        connection.eof_received()
        assert connection.deadline_at < float("inf")
        writer.transport.abort()

    with_listeners(dialogue, limits=LONG)


def test_streams_are_the_last_to_give_way():
    async def dialogue(listeners, _):
        pages = [await stream(listeners.admin_address) for _ in range(3)]
        with contextlib.ExitStack() as ends:
            silent = [ends.enter_context(dial(listeners.admin_address, "127.0.0.2")) for _ in range(3)]
            for sock in silent[:2]:
                await is_ended(sock)
        for _, reader, writer in pages:
            assert (await event(reader))[0] == "history"
            writer.transport.abort()

    with_listeners(dialogue, limits=replace(LONG, connections=4))
