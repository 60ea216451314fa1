"""Soak: honest clients among churn for minutes, and whether memory, permits and latency stay where they were.

`python -m benchmarks.soak --minutes 30`. Time is compressed: deadlines, caches and lives of connections are seconds, so that
each place is used and given back hundreds of times. Clients come from ever new addresses with new tokens, and leave in every
way there is: in order, by reset, in the middle of a head, a body, an answer or a long poll.

Every 5 s a sample: RSS, what is taken by `/v1/status`, honest clients' latency since the last one. In the end the load stops,
and what is left is counted. It fails (exit 1) where anything is left, where RSS grows by more than `MOST_MIB_PER_HOUR` over the
second half, or where the honest clients' p99 in the last third is above `MOST_DRIFT` times that of the first.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import resource
import signal
import socket
import struct
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import combinations, count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import uvloop

from benchmarks.fairness.addresses import honest_address, token_of
from benchmarks.fairness.children import running_child
from benchmarks.fairness.wire import Client, dial, get, request
from tools.console import ToolError, fail
from tools.processes import free_port, start, stop, wait_until

MOST_MIB_PER_HOUR = 24.0
MOST_DRIFT = 2.0
_EVERY_S = 5.0
_HONEST = 20
_HONEST_PER_S = 5
_MIB = 1 << 20
_RESET = struct.pack("ii", 1, 0)
_ROOM = "/_matrix/client/v3/rooms/!r"
_DRAINED_WITHIN_S = 20.0
_LANE = ("running", "held", "waiting")
#: Everything that lives for minutes or hours lives for seconds here.
_COMPRESSED: dict[str, Any] = {
    "connections": {
        "max": 2000,
        "first_byte_seconds": 2,
        "head_seconds": 4,
        "keep_alive_idle_seconds": 5,
        "max_requests": 50,
        "max_age_seconds": 20,
    },
    "identity": {"fresh_seconds": 3, "stale_seconds": 20, "negative_seconds": 2, "max_entries": 2000},
    "bodies": {"rate": {"unconfirmed": {"bytes_per_second": 16384, "grace_seconds": 3},
                        "confirmed": {"bytes_per_second": 2048, "grace_seconds": 5}}},
    "lanes": {"requests": {"deadline_seconds": 3, "max_wait_seconds": 5}, "media": {"deadline_seconds": 10}},
    "log": {"access": "none", "level": "error"},
}  # fmt: skip


@dataclass(slots=True)
class Sample:
    """One look at everything; latencies are the honest clients' since the last one."""

    at_s: float
    rss_bytes: int
    taken: int
    p50_ms: float
    p99_ms: float


@dataclass(slots=True)
class Load:
    """All clients: what they did, and how long honest ones waited."""

    port: int
    chance: random.Random
    addresses: int
    accounts: int
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    done: Counter[str] = field(default_factory=Counter)
    honest_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def address(self) -> str:
        """Give the address nobody had for longest."""
        number = next(self.numbers) % self.addresses
        return f"127.{3 + number // 30_000}.{number // 200 % 150 + 1}.{number % 200 + 1}"

    def token(self) -> str:
        """Give a token: of many accounts, some of them new, some garbage."""
        number = self.chance.randrange(self.accounts)
        return f"garbage{number}" if number % 7 == 0 else token_of(f"user{number}", number % 3 + 1)

    async def honest(self, number: int) -> None:
        """Ask five times a second, for ever."""
        client = Client(honest_address(number), self.port)
        ask = get(f"{_ROOM}/state?ms=5", token_of(f"honest{number}"))
        due = time.perf_counter() + number / _HONEST / _HONEST_PER_S
        while True:
            await asyncio.sleep(due - time.perf_counter())
            began_at = time.perf_counter()
            try:
                async with asyncio.timeout(10):
                    got = await client.ask(ask)
            except (OSError, TimeoutError) as error:
                self.failures[type(error).__name__] += 1
            else:
                self.honest_ms.append((got.at - began_at) * 1e3)
                if got.status != 200:
                    self.failures[str(got.status)] += 1
            due = max(due + 1 / _HONEST_PER_S, time.perf_counter())

    async def churn(self) -> None:
        """Be one odd client after another, for ever."""
        ways: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._asks, 8), (self._leaves, 4), (self._polls, 3), (self._uploads, 3), (self._downloads, 2),
            (self._half_a_head, 3), (self._half_a_body, 3), (self._pipelines, 2), (self._nonsense, 3),
            (self._upgrades, 1), (self._idles, 2),
        ]  # fmt: skip
        population, weights = [way for way, _ in ways], [weight for _, weight in ways]
        while True:
            way = self.chance.choices(population, weights)[0]
            try:
                async with asyncio.timeout(15):
                    await way()
                self.done[way.__name__] += 1
            except (OSError, TimeoutError):
                self.done[f"{way.__name__}, closed"] += 1
            await asyncio.sleep(self.chance.random() * 0.05)

    async def _asks(self) -> None:
        client, token = Client(self.address(), self.port), self.token()
        for _ in range(self.chance.randrange(1, 12)):
            await client.ask(get(f"{_ROOM}/state?ms={self.chance.randrange(20)}", token))
        client.leave()

    async def _leaves(self) -> None:
        await self._say(get(f"{_ROOM}/state?ms=400", self.token()), stay_s=self.chance.random() * 0.2)

    async def _polls(self) -> None:
        ask = get("/_matrix/client/v3/sync?since=s1&timeout=2000", self.token())
        await self._say(ask, stay_s=self.chance.random() * 3)

    async def _uploads(self) -> None:
        body = bytes(self.chance.randrange(1000, 900_000))
        ask = request("POST", "/_matrix/media/v3/upload", self.token(), body)
        await Client(self.address(), self.port).ask(ask)

    async def _downloads(self) -> None:
        """Take a part of 2 MiB slowly, then leave."""
        loop = asyncio.get_running_loop()
        sock = await dial(self.address(), self.port, 8192)
        with contextlib.closing(sock):
            await loop.sock_sendall(sock, get("/_matrix/client/v1/media/download/bench/2mib", self.token()))
            for _ in range(self.chance.randrange(40)):
                await loop.sock_recv(sock, 32_768)
                await asyncio.sleep(0.02)

    async def _half_a_head(self) -> None:
        head = get(f"{_ROOM}/state", self.token())
        await self._say(head[: self.chance.randrange(len(head))], stay_s=self.chance.random())

    async def _half_a_body(self) -> None:
        whole = request("PUT", f"{_ROOM}/send/m.room.message/1", self.token(), bytes(400_000))
        await self._say(whole[: self.chance.randrange(200, len(whole))], stay_s=self.chance.random() * 2)

    async def _pipelines(self) -> None:
        await self._say(get(f"{_ROOM}/state?ms=2&bytes=2000", self.token()) * 20, stay_s=0.3)

    async def _nonsense(self) -> None:
        await self._say(self.chance.randbytes(self.chance.randrange(1, 3000)) + b"\r\n\r\n", stay_s=0.1)

    async def _upgrades(self) -> None:
        fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"
        await self._say(request("GET", f"{_ROOM}/ws?ms=5", self.token(), None, fields), stay_s=0.2)

    async def _idles(self) -> None:
        await self._say(b"", stay_s=self.chance.random() * 4)

    async def _say(self, data: bytes, stay_s: float) -> None:
        """Send, stay for a while, and leave: in order or by reset."""
        sock = await dial(self.address(), self.port)
        with contextlib.closing(sock):
            await asyncio.get_running_loop().sock_sendall(sock, data)
            await asyncio.sleep(stay_s)
            if self.chance.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def taken(status: dict[str, Any]) -> dict[str, int]:
    """Give everything that clients take and must give back, by `/v1/status`, where it is not 0."""
    bodies, pool, waits = status["bodies"], status["upstream"]["pool"], status["waits"]
    identity, gate = status["identity"], status["homeservers"][0]
    counts = {f"{lane['name']} {what}": lane[what] for lane in status["workers"]["lanes"] for what in _LANE}
    counts |= {f"waits {what}": waits[what] for what in ("used", "live", "ghosts", "parked")}
    counts |= {what: identity[what] for what in ("lookups_running", "lookups_queued", "requests_waiting")}
    counts |= {f"background {what}": gate[what] for what in ("active", "held", "waiting")}
    counts |= {f"stores of {way}": bodies[way]["open"] for way in ("requests", "answers")}
    counts |= {f"disk of {way}": bodies[way]["disk"]["taken_bytes"] for way in ("requests", "answers")}
    counts |= {f"pool {what}": pool[what] for what in ("busy", "connecting", "waiting")}
    counts |= {f"spool {what}": bodies["spool"][what] for what in ("open_files", "operations_in_flight")}
    counts["memory"] = bodies["memory"]["taken_bytes"]
    counts["tunnels"] = status["tunnels"]["open"]
    counts["clients"] = sum(status["connections"]["by_state"].values())
    return {what: number for what, number in counts.items() if number}


def rss_bytes(pid: int) -> int:
    """Give what the kernel counts as a process's."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def _status(admin: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/v1/status", timeout=5) as answer:
        status: dict[str, Any] = json.load(answer)
    return status


async def _soak(choice: argparse.Namespace, port: int, admin: int, pid: int) -> bool:
    load = Load(port, random.Random(9), choice.addresses, choice.accounts)
    lives = [asyncio.create_task(load.honest(number)) for number in range(_HONEST)]
    lives += [asyncio.create_task(load.churn()) for _ in range(choice.clients)]
    samples: list[Sample] = []
    began_at = time.monotonic()
    while (at_s := time.monotonic() - began_at) < choice.minutes * 60:
        await asyncio.sleep(_EVERY_S)
        ms, load.honest_ms = load.honest_ms, []
        cuts = quantiles(ms, n=100) if len(ms) > 1 else [0.0] * 99
        status = await asyncio.to_thread(_status, admin)
        samples.append(Sample(at_s, rss_bytes(pid), sum(taken(status).values()), cuts[49], cuts[98]))
        sample = samples[-1]
        print(
            f"{sample.at_s:6.0f} s  {sample.rss_bytes / _MIB:7.2f} MiB  "
            f"p50 {sample.p50_ms:5.1f} ms  p99 {sample.p99_ms:6.1f} ms  "
            f"{sum(load.done.values()):,} odd clients",
            flush=True,
        )
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    left = await _left(admin)
    status = await asyncio.to_thread(_status, admin)
    return _report(samples, load, left, status)


async def _left(admin: int) -> dict[str, int]:
    """Give what is still taken when everybody has been gone for a while."""
    deadline = time.monotonic() + _DRAINED_WITHIN_S
    while True:
        left = taken(await asyncio.to_thread(_status, admin))
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.2)


def _report(samples: list[Sample], load: Load, left: dict[str, int], status: dict[str, Any]) -> bool:
    half = samples[len(samples) // 2 :]
    slope = _slope([(one.at_s, one.rss_bytes / _MIB) for one in half]) * 3600
    third = max(1, len(samples) // 3)
    warm = samples[1 : third + 1]
    drift = median(one.p99_ms for one in samples[-third:]) / max(1e-9, median(one.p99_ms for one in warm))
    requests = sum(status["requests_total"].values())
    ways = ", ".join(f"{name} {number:,}" for name, number in sorted(load.done.items()))
    print(
        f"\n{requests:,} requests, {status['connections']['accepted_total']:,} connections; odd clients: {ways}"
    )
    print(f"refused: { {reason: n for reason, n in status['refused_total'].items() if n} }")
    print(f"honest failures: {dict(load.failures) or 'none'}")
    print(f"RSS {samples[0].rss_bytes / _MIB:.1f} → {samples[-1].rss_bytes / _MIB:.1f} MiB; slope over the second half "
          f"{slope:+.1f} MiB an hour")  # fmt: skip
    print(f"p99 of the last third {drift:.2f} times that of the first")
    print(f"left behind: {left or 'nothing'}")
    return not left and slope <= MOST_MIB_PER_HOUR and drift <= MOST_DRIFT


def _slope(points: list[tuple[float, float]]) -> float:
    """Give the median slope of all pairs (Theil and Sen): a few large bodies in memory at once do not tilt it."""
    return median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2))


def _run(choice: argparse.Namespace, folder: Path) -> bool:
    port, admin, metrics, upstream = free_port(), free_port(), free_port(), free_port()
    tree = {
        "listen": [{"address": f"127.0.0.1:{port}"}],
        "homeserver": {"url": f"http://127.0.0.1:{upstream}", "profile": "generic"},
        "admin": {"listen": f"127.0.0.1:{admin}"},
        "metrics": {"listen": f"127.0.0.1:{metrics}"},
        **_COMPRESSED,
    }
    config, log = folder / "fairgate.json", folder / "fairgate.log"
    config.write_text(json.dumps(tree))  # JSON is YAML
    with running_child("homeserver", {"port": upstream}, None, folder / "homeserver.log") as homeserver:
        homeserver.hear(10)
        command: list[str | Path] = [sys.executable, "-m", "proxy", "run", "--config", config]
        fairgate = start(command, log, env={"TMPDIR": str(folder)}, cwd=Path(__file__).resolve().parents[1])
        try:
            wait_until(lambda: _is_ready(metrics), 20, "Fairgate", fairgate, log)
            reached = uvloop.run(_soak(choice, port, admin, fairgate.pid))
        finally:
            code = stop(fairgate, 30)
    told = log.read_text()
    print(f"exit code {code}; log: {told.count('Traceback')} tracebacks")
    return reached and code == 0 and "Traceback" not in told


def _is_ready(metrics: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> int:
    """Soak and report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=100, help="odd clients at once")
    parser.add_argument("--addresses", type=int, default=60_000, help="they come from, at most 60,000")
    parser.add_argument(
        "--accounts", type=int, default=5_000, help="they ask for, with two tokens or three each"
    )
    choice = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with tempfile.TemporaryDirectory(prefix="fairgate-soak-") as folder:
            return 0 if _run(choice, Path(folder)) else 1
    except ToolError as error:
        fail(error)
        return 2


if __name__ == "__main__":
    sys.exit(main())
