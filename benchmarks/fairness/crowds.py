"""Crowds of honest clients: more than a proxy that sees addresses only would grant, and no more than they may have."""

import asyncio
import time
from itertools import count

from benchmarks.fairness.addresses import BRIDGE_TOKEN, SHARED_ADDRESS, other_address, token_of
from benchmarks.fairness.tally import Tally
from benchmarks.fairness.wire import Client, get

_ROOM = "/_matrix/client/v3/rooms/!r"
_PATIENCE_S = 5.0
_ACCOUNTS = 200
_AT_A_START = 24
_STARTS_WITHIN = 0.7  # of the seconds watched, so that the last starts are seen to end
_GHOSTS = 1000
_BRIDGE_OUTSTANDING = 64
_BRIDGE_MS = 50
_CLIENTS = 300


async def app_starts(port: int, tally: Tally, seconds: float) -> None:
    """200 accounts behind one address start their app one after another: 24 requests of 5 ms each, all at once."""

    async def ask(target: str, token: str) -> None:
        client = Client(SHARED_ADDRESS, port)
        await _ask(client, get(target, token), tally)
        client.leave()

    async def start(account: int) -> None:
        await asyncio.sleep(account / _ACCOUNTS * seconds * _STARTS_WITHIN)
        token = token_of(f"crowd{account}")
        await asyncio.gather(*(ask(f"{_ROOM}{room}/state?ms=5", token) for room in range(_AT_A_START)))

    tally.expect(1)
    tally.began()
    await asyncio.gather(*map(start, range(_ACCOUNTS)))


async def bridge(port: int, tally: Tally, _: float) -> None:
    """A bridge acts as 1,000 ghosts in turn on its one token: 64 requests of 50 ms outstanding."""
    ghosts = count()

    async def act(_: int) -> None:
        client = Client(other_address(0), port)
        tally.began()
        while True:
            ghost = f"%40ghost{next(ghosts) % _GHOSTS}%3Abench"
            if not await _ask(
                client, get(f"{_ROOM}/state?ms={_BRIDGE_MS}&user_id={ghost}", BRIDGE_TOKEN), tally
            ):
                await asyncio.sleep(0.1)

    tally.expect(_BRIDGE_OUTSTANDING)
    await asyncio.gather(*map(act, range(_BRIDGE_OUTSTANDING)))


async def many_clients(port: int, tally: Tally, _: float) -> None:
    """300 clients, each its own account and address, with a request of 5 ms a second."""

    async def live(number: int) -> None:
        client = Client(other_address(number), port)
        ask = get(f"{_ROOM}/state?ms=5", token_of(f"crowd{number}"))
        await asyncio.sleep(number / _CLIENTS)
        while True:
            due = time.perf_counter() + 1
            await _ask(client, ask, tally)
            tally.began()
            await asyncio.sleep(due - time.perf_counter())

    tally.expect(_CLIENTS)
    await asyncio.gather(*map(live, range(_CLIENTS)))


async def _ask(client: Client, ask: bytes, tally: Tally) -> bool:
    """Ask once, patiently; tell whether it was served."""
    sent = time.perf_counter()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            got = await client.ask(ask)
    except TimeoutError:
        tally.add("no answer")
    except OSError:
        tally.add("closed")
    else:
        tally.add(str(got.status), got.at - sent)
        return got.status == 200
    return False
