"""The attacks, one at a time, each a coroutine that goes on until the process is told to stop.

An attacker that is refused pauses for a moment: what is shown is what the waiting costs others, not who has more CPU on this
machine. Crowds of honest clients are in `crowds.py`; both are run by `siege.py`.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from itertools import count

from benchmarks.fairness.addresses import other_address, token_of
from benchmarks.fairness.tally import Tally
from benchmarks.fairness.wire import Client, Connection, dial, get, request

#: The service time of the requests that hoard workers.
HOARDED_MS = 300
_ROOM = "/_matrix/client/v3/rooms/!r"
_POLL = "/_matrix/client/v3/sync?since=s1&timeout=30000"
_PAUSE_S = 0.1  # after a refusal
_TINY_RECEIVE_BYTES = 4096
_MIB = 1 << 20
_STUCK_MS = 300_000
_CHURN_PER_S = 1000
_RESET = struct.pack("ii", 1, 0)


async def slow_heads(port: int, tally: Tally) -> None:
    """400 connections, each sending its head at a byte a second."""
    head = get(f"{_ROOM}/state?ms=5", token_of("mallory"))

    async def drip(_: int) -> None:
        sock = await dial(other_address(0), port)
        with contextlib.closing(sock):
            tally.began()
            for at in range(len(head)):
                await asyncio.get_running_loop().sock_sendall(sock, head[at : at + 1])
                await asyncio.sleep(1)

    await _crowd(400, drip, tally)


async def slow_bodies(port: int, tally: Tally) -> None:
    """64 requests whose bodies of 64 KiB come at a byte a second."""
    whole = request("PUT", f"{_ROOM}/send/m.room.message/1", token_of("mallory"), bytes(65_536))
    head = whole[: whole.index(b"\r\n\r\n") + 4]

    async def drip(_: int) -> None:
        sock = await dial(other_address(0), port)
        with contextlib.closing(sock):
            await asyncio.get_running_loop().sock_sendall(sock, head)
            tally.began()
            while True:
                await asyncio.get_running_loop().sock_sendall(sock, b" ")
                await asyncio.sleep(1)

    await _crowd(64, drip, tally)


async def tokenless_uploads(port: int, tally: Tally) -> None:
    """16 uploads of 50 MiB without a token, as fast as they are taken."""
    length = 50 * _MIB
    head = (
        f"POST /_matrix/media/v3/upload HTTP/1.1\r\nHost: bench\r\nContent-Length: {length}\r\n\r\n".encode()
    )
    piece = bytes(_MIB)

    async def upload(_: int) -> None:
        loop = asyncio.get_running_loop()
        sock = await dial(other_address(0), port)
        with contextlib.closing(sock):
            tally.began()
            await loop.sock_sendall(sock, head)
            for _ in range(length // _MIB):
                await loop.sock_sendall(sock, piece)
            await _status_of(sock, tally)

    await _crowd(16, upload, tally)


async def idle_connections(port: int, tally: Tally) -> None:
    """4,000 connections on which nothing is ever sent, opened again where they are closed."""

    async def idle(_: int) -> None:
        sock = await dial(other_address(0), port)
        with contextlib.closing(sock):
            tally.began()
            await asyncio.get_running_loop().sock_recv(sock, 1)

    await _crowd(4000, idle, tally)


async def slow_readers(port: int, tally: Tally) -> None:
    """64 downloads of 5 MiB, read at a KiB a second."""
    ask = get("/_matrix/client/v1/media/download/bench/5mib", token_of("mallory"))

    async def sip(_: int) -> None:
        loop = asyncio.get_running_loop()
        sock = await dial(other_address(0), port, _TINY_RECEIVE_BYTES)
        with contextlib.closing(sock):
            await loop.sock_sendall(sock, ask)
            tally.began()
            got = await loop.sock_recv(sock, 1024)
            status = got[9:12].decode() or "closed"
            tally.add(status)
            while got and status == "200":
                await asyncio.sleep(1)
                got = await loop.sock_recv(sock, 1024)

    await _crowd(64, sip, tally)


async def abandoned(port: int, tally: Tally) -> None:
    """32 requests of 5 s at a time, each left after a quarter of a second."""
    await _leavers(port, tally, [(other_address(0), token_of("mallory"))] * 32, 5000, 0.25)


async def one_address(port: int, tally: Tally, address: str | None = None) -> None:
    """64 outstanding requests of 300 ms from one address."""
    await _greedy(port, tally, [(address or other_address(0), token_of("mallory"))] * 64)


async def one_account(port: int, tally: Tally) -> None:
    """64 outstanding requests of 300 ms of one account, from 64 addresses."""
    await _greedy(port, tally, [(other_address(number), token_of("mallory")) for number in range(64)])


async def eight_greedy(port: int, tally: Tally) -> None:
    """8 accounts at their own addresses, 16 requests of 300 ms outstanding each."""
    await _greedy(port, tally, _own(8, 16))


async def thirty_two_greedy(port: int, tally: Tally) -> None:
    """32 accounts at their own addresses, 8 requests of 300 ms outstanding each."""
    await _greedy(port, tally, _own(32, 8))


async def stuck(port: int, tally: Tally) -> None:
    """4 accounts at their own addresses, 16 requests outstanding each that take minutes."""
    await _greedy(port, tally, _own(4, 16), _STUCK_MS)


async def stuck_and_abandoned(port: int, tally: Tally) -> None:
    """The same, each request left after a second and asked again."""
    await _leavers(port, tally, _own(4, 16), _STUCK_MS, 1.0)


async def long_polls(port: int, tally: Tally) -> None:
    """64 long polls of one account from 64 addresses."""
    await _polls(port, tally, lambda _: token_of("mallory"))


async def long_polls_of_new_tokens(port: int, tally: Tally) -> None:
    """The same, with a new token of the account for each poll."""
    devices = count(1)
    await _polls(port, tally, lambda _: token_of("mallory", next(devices)))


async def garbage_tokens(port: int, tally: Tally) -> None:
    """64 clients at their own addresses, each request and sync with another garbage token."""
    numbers = count()

    async def guess(client: int) -> None:
        asker = Client(other_address(client), port)
        tally.began()
        while True:
            number = next(numbers)
            target = _POLL if number % 2 else f"{_ROOM}/state?ms=5"
            await _ask(asker, get(target, f"garbage{number}"), tally)
            await asyncio.sleep(_PAUSE_S)

    await _crowd(64, guess, tally)


async def pipelining(port: int, tally: Tally) -> None:
    """64 connections that send one request after another, with answers of 64 KiB, and read none."""
    many = get(f"{_ROOM}/state?ms=5&bytes=65536", token_of("mallory")) * 64

    async def push(_: int) -> None:
        loop = asyncio.get_running_loop()
        sock = await dial(other_address(0), port, _TINY_RECEIVE_BYTES)
        with contextlib.closing(sock):
            tally.began()
            while True:
                await loop.sock_sendall(sock, many)

    await _crowd(64, push, tally)


async def churn(port: int, tally: Tally) -> None:
    """1,000 connections a second from 16 addresses: closed or reset, after nothing, half a head or a whole request."""
    whole = get(f"{_ROOM}/state?ms=5", token_of("mallory"))
    sent = (b"", whole[:40], whole)
    numbers = count()

    async def come_and_go(client: int) -> None:
        loop = asyncio.get_running_loop()
        tally.began()
        while True:
            due = loop.time() + 64 / _CHURN_PER_S
            number = next(numbers)
            with contextlib.closing(await dial(other_address(client % 16), port)) as sock:
                if number % 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                await loop.sock_sendall(sock, sent[number % 3])
                tally.add("came and went")
            await asyncio.sleep(due - loop.time())

    await _crowd(64, come_and_go, tally)


def _own(accounts: int, outstanding: int) -> list[tuple[str, str]]:
    """Give address and token of each request outstanding, where each account has its own address."""
    return [
        (other_address(number), token_of(f"greedy{number}"))
        for number in range(accounts)
        for _ in range(outstanding)
    ]


async def _greedy(port: int, tally: Tally, askers: list[tuple[str, str]], ms: int = HOARDED_MS) -> None:
    async def ask_on(number: int) -> None:
        address, token = askers[number]
        asker = Client(address, port)
        ask = get(f"{_ROOM}/state?ms={ms}", token)
        tally.began()
        while True:
            if not await _ask(asker, ask, tally):
                await asyncio.sleep(_PAUSE_S)

    await _crowd(len(askers), ask_on, tally)


async def _leavers(
    port: int, tally: Tally, askers: list[tuple[str, str]], ms: int, leave_after_s: float
) -> None:
    async def leave(number: int) -> None:
        address, token = askers[number]
        connection = await Connection.opened(address, port)
        tally.began()
        try:
            async with asyncio.timeout(leave_after_s):
                got = await connection.ask(get(f"{_ROOM}/state?ms={ms}", token))
            tally.add(str(got.status))
            await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            tally.add("left")
        finally:
            connection.close()

    await _crowd(len(askers), leave, tally)


async def _polls(port: int, tally: Tally, token: Callable[[int], str]) -> None:
    async def poll(number: int) -> None:
        asker = Client(other_address(number), port)
        tally.began()
        while True:
            if not await _ask(asker, get(_POLL, token(number)), tally):
                await asyncio.sleep(_PAUSE_S)

    await _crowd(64, poll, tally)


async def _ask(asker: Client, ask: bytes, tally: Tally) -> bool:
    """Ask once; tell whether it was served."""
    try:
        got = await asker.ask(ask)
    except OSError:
        tally.add("closed")
        return False
    tally.add(str(got.status))
    return got.status == 200


async def _status_of(sock: socket.socket, tally: Tally) -> None:
    got = await asyncio.get_running_loop().sock_recv(sock, 4096)
    tally.add(got[9:12].decode("latin-1") or "closed")


async def _crowd(number: int, live: Callable[[int], Awaitable[None]], tally: Tally) -> None:
    """Run `live` for each; who ends, or whose connection does, begins again after a pause."""

    async def again_and_again(which: int) -> None:
        while True:
            try:
                await live(which)
            except OSError:
                tally.add("closed")
            await asyncio.sleep(_PAUSE_S)

    tally.expect(number)
    await asyncio.gather(*map(again_and_again, range(number)))
