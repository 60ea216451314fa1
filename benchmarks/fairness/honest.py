"""The honest clients, in a process of their own so that nothing disturbs their watches.

Four light ones (20 requests a second each, one at a time, 5 ms of service), two syncing devices (one long poll after another),
one uploader of 256 KiB a second; each its own account and address. Served means a 200 within the client's patience. Latency
counts from sending, or from connecting where that was needed. A client that is late for its next request skips it.

Child of the bench: told `{"seconds": s}` it watches what is sent from now on for s seconds, waits for those answers and gives
them, with how late each client's own watch was: that is the machine, not the proxy.
"""

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field

import uvloop

from benchmarks.fairness.addresses import honest_address, token_of
from benchmarks.fairness.children import Message, answer, questions
from benchmarks.fairness.wire import Client, get, request

LIGHT_CLIENTS = 4
LIGHT_PER_S = 20
SERVICE_MS = 5
SYNC_DEVICES = 2
SYNC_TIMEOUT_S = 0.5
UPLOAD_BYTES = 262_144
_PATIENCE_S = 5.0
_SYNC_PATIENCE_S = SYNC_TIMEOUT_S + 2
_AFTER_FAILED_SYNC_S = 0.3


@dataclass(slots=True)
class Window:
    """What was sent within it and how it ended; `open` counts what is still out."""

    until: float
    kinds: dict[str, list[float]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)
    open: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        """One more is out."""
        self.open += 1

    def end(self) -> None:
        """One has come back."""
        self.open -= 1
        if not self.open:
            self.closed.set()

    def figures(self) -> Message:
        """Give it as the parent wants it: latencies and lateness in ms."""
        return {
            "ms": {kind: [round(value * 1e3, 2) for value in values] for kind, values in self.kinds.items()},
            "failures": dict(self.failures),
            "late_ms": [round(value * 1e3, 2) for value in self.late],
        }


class Honest:
    """All honest clients and the window that watches them."""

    def __init__(self, port: int, shared_address: str | None) -> None:
        self._port = port
        self._shared = shared_address
        self._window: Window | None = None

    async def watch(self, seconds: float) -> Message:
        """Watch from now on for `seconds`, then wait for what is out."""
        window = self._window = Window(time.perf_counter() + seconds)
        await asyncio.sleep(seconds)
        self._window = None
        while window.open:
            window.closed.clear()
            await window.closed.wait()
        return window.figures()

    async def live(self) -> None:
        """Be all of them, for ever."""
        lives: list[Coroutine[None, None, None]] = []
        for number in range(LIGHT_CLIENTS):
            target = f"/_matrix/client/v3/rooms/!r{number}/state?ms={SERVICE_MS}"
            ask = get(target, token_of(f"light{number}"))
            lives.append(self._regularly("light", number, ask, 1 / LIGHT_PER_S, number / LIGHT_CLIENTS))
        lives += [self._syncs(LIGHT_CLIENTS + n, token_of(f"syncing{n}")) for n in range(SYNC_DEVICES)]
        upload = request("POST", "/_matrix/media/v3/upload", token_of("uploader"), bytes(UPLOAD_BYTES))
        lives.append(self._regularly("upload", LIGHT_CLIENTS + SYNC_DEVICES, upload, 1.0, 0.5))
        await asyncio.gather(*lives)

    async def _regularly(self, kind: str, number: int, ask: bytes, every_s: float, phase: float) -> None:
        client = self._client(number)
        due = time.perf_counter() + phase * every_s
        while True:
            now = time.perf_counter()
            if now > due:
                due += -(-(now - due) // every_s) * every_s
            await asyncio.sleep(due - now)
            if self._window is not None:
                self._window.late.append(time.perf_counter() - due)
            await self._once(kind, client, ask, _PATIENCE_S)

    async def _syncs(self, number: int, token: str) -> None:
        client = self._client(number)
        timeout_ms = int(SYNC_TIMEOUT_S * 1000)
        ask = get(f"/_matrix/client/v3/sync?since=s1&timeout={timeout_ms}", token)
        while True:
            if not await self._once("sync", client, ask, _SYNC_PATIENCE_S):
                await asyncio.sleep(_AFTER_FAILED_SYNC_S)

    async def _once(self, kind: str, client: Client, ask: bytes, patience_s: float) -> bool:
        window = self._window
        if window is not None:
            window.begin()
        sent = time.perf_counter()
        failure, took_s = "", 0.0
        try:
            async with asyncio.timeout(patience_s):
                got = await client.ask(ask)
            took_s = got.at - sent
            if got.status != 200:
                failure = str(got.status)
        except TimeoutError:
            failure = "no answer"
        except OSError:
            failure = "closed"
        if window is not None:
            window.end()
            if failure:
                window.failures[f"{kind} {failure}"] += 1
            else:
                window.kinds.setdefault(kind, []).append(took_s)
        return not failure

    def _client(self, number: int) -> Client:
        return Client(self._shared or honest_address(number), self._port)


async def _serve(settings: Message) -> None:
    honest = Honest(settings["port"], settings["shared_address"])
    living = asyncio.create_task(honest.live())
    gc.collect()
    gc.freeze()
    answer({"ready": True})
    async for question in questions():
        answer(await honest.watch(question["seconds"]))
    living.cancel()


if __name__ == "__main__":
    uvloop.run(_serve(json.loads(sys.argv[1])))
