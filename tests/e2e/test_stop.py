import asyncio
import signal
import socket
import threading
import time
from dataclasses import dataclass, field

import pytest
from e2e_support import RawUpstream, running_fairgate, wait_for

CLIENTS = 32
SERVICE_S = 0.02
DRAIN_S = 5
BODY = b"x" * 20_000
GET = b"GET /_matrix/client/v3/account/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /_matrix/client/v3/createRoom HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(
    BODY
)


@pytest.fixture
def busy(tmp_path):
    """Fairgate in front of a server that takes 20 ms for a request."""

    def serve(connection):
        while head := connection.read_head():
            if head.startswith(b"POST"):
                assert sum(map(len, connection.read_body(len(BODY)))) == len(BODY)
            time.sleep(SERVICE_S)
            connection.answer()

    settings = {"connections": {"drain_seconds": DRAIN_S}}
    with RawUpstream(serve) as upstream, running_fairgate(tmp_path, upstream.url, **settings) as fairgate:
        yield fairgate


@dataclass
class Tally:
    answered: int = 0
    answered_after: int = 0
    stopping: bool = False
    lost: list = field(default_factory=list)
    warm: asyncio.Event = field(default_factory=asyncio.Event)


async def ask_until_refused(port, number, tally):
    """One client: keeps its connection until it is told or seen to close, and then makes another."""
    request = POST + BODY if number % 4 == 0 else GET
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as sock:
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, ("127.0.0.1", port))
            except ConnectionError:
                return
            while is_open(sock):
                # Nothing is awaited between the look and the first byte, so no close can come between unseen.
                sent = sock.send(request)
                try:
                    await loop.sock_sendall(sock, request[sent:])
                    head = await answer_to(loop, sock)
                except ConnectionError as error:
                    head = repr(error).encode()
                if not head.startswith(b"HTTP/1.1 200"):
                    tally.lost.append((number, tally.stopping, head))
                    break
                tally.answered += 1
                if tally.answered == CLIENTS * 10:
                    tally.warm.set()
                tally.answered_after += tally.stopping
                if b"connection: close" in head.lower():
                    break


def is_open(sock):
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


async def answer_to(loop, sock):
    data = b""
    while not data.endswith(b"\r\n\r\n{}"):
        more = await loop.sock_recv(sock, 65536)
        if not more:
            break
        data += more
    return data


async def load(fairgate, tally):
    clients = [
        asyncio.create_task(ask_until_refused(fairgate.port, number, tally)) for number in range(CLIENTS)
    ]
    async with asyncio.timeout(10):
        await tally.warm.wait()
    fairgate.child.send_signal(signal.SIGTERM)
    tally.stopping = True
    async with asyncio.timeout(DRAIN_S + 2):
        await asyncio.gather(*clients)


def test_no_request_is_lost_when_it_stops_under_load(busy):
    tally = Tally()

    asyncio.run(load(busy, tally))

    assert tally.lost == []
    assert tally.answered_after > 0
    began_at = time.monotonic()
    assert busy.child.wait(DRAIN_S + 4) == 0
    assert time.monotonic() - began_at < 2, (
        "it goes when the last request ended, not at the end of the drain time"
    )


@pytest.fixture
def stuck(tmp_path):
    """Fairgate with a request in service that never ends."""
    begun = threading.Event()

    def hold(connection):
        while connection.read_head():
            begun.set()
            connection.wait_end(60)

    settings = {"connections": {"drain_seconds": DRAIN_S}}
    with (
        RawUpstream(hold) as upstream,
        running_fairgate(tmp_path, upstream.url, **settings) as fairgate,
        fairgate.connect() as client,
    ):
        client.sendall(GET)
        assert begun.wait(5)
        yield fairgate, client


def refuses(fairgate):
    try:
        fairgate.connect().close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass
    return False


def seconds_to_end(fairgate, within_s):
    began_at = time.monotonic()
    assert fairgate.child.wait(within_s) == 0
    return time.monotonic() - began_at


def test_a_request_that_does_not_end_holds_it_for_the_drain_time(stuck):
    fairgate, client = stuck
    fairgate.child.send_signal(signal.SIGTERM)
    wait_for(lambda: refuses(fairgate), 2, "nobody is accepted any more")
    assert DRAIN_S - 1 < seconds_to_end(fairgate, DRAIN_S + 5) < DRAIN_S + 4
    answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"M_LIMIT_EXCEEDED" in answer


def test_a_second_signal_closes_at_once(stuck):
    fairgate, _ = stuck
    fairgate.child.send_signal(signal.SIGTERM)
    wait_for(lambda: refuses(fairgate), 2, "nobody is accepted any more")
    fairgate.child.send_signal(signal.SIGTERM)
    assert seconds_to_end(fairgate, 3) < 1
