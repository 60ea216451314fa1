"""The incident of docs/background.md on real sockets, sixty times as fast: two backfills before a homeserver that struggles.

Each backfill pages one room's history, gives a page up after 30 s and asks again. The homeserver goes on with what was given
up, for as long as the incident's log says (3 min at the 10th percentile, 18 min at the median, 2.2 h at the 90th). It has 16
workers (`benchmarks.fairness.homeserver`); honest clients are those of `benchmarks.fairness.honest`, at their everyday speed.
After some time it recovers at once. Four times: no proxy; Fairgate with backfills that say nothing, with its usual limit of
15 minutes for a held worker and with one of 3 hours; Fairgate with backfills that declare what they are. Everything of the
incident is sixty times as fast: clients' patience and pauses, and Fairgate's times of the same kind. Service of honest
requests is not. A row is measured once more where the machine was busy with others before the backfills began.

Usage: python -m benchmarks.incident [--hours 1] [--seed 1] [--json FILE]
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import peers
from benchmarks.fairness.addresses import other_address, token_of
from benchmarks.fairness.children import Child, running_child
from benchmarks.fairness.priority import FIRST, set_niceness
from benchmarks.fairness.scoring import Watched, disturbed
from benchmarks.fairness.wire import Client, request
from tools.console import ToolError, fail
from tools.processes import free_port, wait_until

FASTER = 60.0
PATIENCE_S = 30 / FASTER
PAUSE_S = 0.5 / FASTER
HINT_S = 15 / FASTER  # the least the gate says
GOOD_MS = 840 / FASTER
#: Seconds of work after the client left, by the share of requests that were over by then.
QUANTILES = ((0.0, 30.0), (0.1, 180.0), (0.5, 1080.0), (0.9, 7920.0), (1.0, 8640.0))
BACKGROUND = {
    "timeout_seconds": {"default": 30 / FASTER, "state": 15 / FASTER},
    "hold_seconds": 900 / FASTER,
    "cooldown_seconds": 60 / FASTER,
    "cooldown_max_seconds": 1800 / FASTER,
    "max_wait_seconds": 30 / FASTER,
}
HISTORY_DEADLINE_S = 300 / FASTER
HOLD_S = 900.0  # lanes.max_hold_seconds by default
LONG_HOLD_S = 3600.0 * 3
_BASE_S = 6.0
_WARM_UP_S = 1.0
_RECOVERY_WITHIN_S = 60.0
_EVERY_S = 0.02
_START_WITHIN_S = 20
_ANSWER_WITHIN_S = 20


@dataclass(slots=True)
class Backfills:
    """Two accounts that page without end, in a thread; what came of it."""

    port: int
    declared: bool
    seed: int
    struggles: bool = True
    asked: int = 0
    pages: int = 0
    abandoned: int = 0
    refused: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Page until the block is left."""
        thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    async def _run(self) -> None:
        await asyncio.gather(*(self._page(number, random.Random(self.seed + number)) for number in range(2)))

    async def _page(self, number: int, chance: random.Random) -> None:
        client = Client(other_address(number), self.port)
        fields = "Fairgate-Class: background\r\n" if self.declared else ""
        while not self._over.is_set():
            target = f"/_matrix/client/v3/rooms/!r{number}/messages?ms={self._service_ms(chance):.0f}"
            pause_s = PAUSE_S
            self.asked += 1
            try:
                async with asyncio.timeout(PATIENCE_S):
                    answer = await client.ask(
                        request("GET", target, token_of(f"backfill{number}"), fields=fields)
                    )
                self.pages += answer.status == 200
                if answer.status == 429:
                    self.refused += 1
                    pause_s = HINT_S
            except TimeoutError:
                self.abandoned += 1
            except OSError:
                pass
            await asyncio.sleep(pause_s)
        client.leave()

    def _service_ms(self, chance: random.Random) -> float:
        if not self.struggles:
            return GOOD_MS
        share = chance.random()
        for (low, low_s), (high, high_s) in itertools.pairwise(QUANTILES):
            if share <= high:
                return (30 + low_s + (high_s - low_s) * (share - low) / (high - low)) * 1000 / FASTER
        raise AssertionError


@dataclass(slots=True)
class Gate:
    """What `/v1/status` said of the gate, looked at every 20 ms from the moment the backfills began."""

    zero_after_s: float | None = None
    most_active_later: int = 0
    probes: int = 0
    limit: int = 0

    def look(self, status: dict[str, Any], at_s: float) -> None:
        """Take one look."""
        gate = status["homeservers"][0]
        if self.zero_after_s is None and at_s > PATIENCE_S / 2 and not gate["active"]:
            self.zero_after_s = at_s
        if self.zero_after_s is not None:
            self.most_active_later = max(self.most_active_later, gate["active"])
        self.probes, self.limit = gate["probes_total"], gate["limit"]


@dataclass(frozen=True, slots=True)
class Result:
    """One row: honest clients without the backfills and, in the worst of three windows, with them; what the homeserver got."""

    title: str
    base: Watched
    worst: Watched
    given: int
    most_at_once: int
    asked: int
    abandoned: int
    gate: Gate | None
    first_page_after_s: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """What is in front of the homeserver: nothing where `hold_s` is None."""

    title: str
    hold_s: float | None
    declared: bool = False


ROWS = (
    Row("no proxy", None),
    Row("Fairgate, they say nothing", HOLD_S),
    Row("the same, `lanes.max_hold_seconds: 10800`", LONG_HOLD_S),
    Row("Fairgate, they declare it", HOLD_S, declared=True),
)


def _measure(row: Row, outage_s: float, seed: int) -> Result:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fairgate-incident-")))
        cores = sorted(os.sched_getaffinity(0))
        upstream, admin = free_port(), free_port()
        homeserver = stack.enter_context(
            running_child("homeserver", {"port": upstream}, cores[-1], folder / "homeserver.log")
        )
        homeserver.hear(_START_WITHIN_S)
        port = upstream
        if row.hold_s is not None:
            port = stack.enter_context(_fairgate(folder, upstream, admin, cores[0], row.hold_s))
        settings = {"port": port, "shared_address": None}
        honest = stack.enter_context(running_child("honest", settings, cores[-1], folder / "honest.log"))
        honest.hear(_START_WITHIN_S)
        time.sleep(_WARM_UP_S)
        base = Watched.of(_watch(honest, _BASE_S))
        homeserver.ask({}, _ANSWER_WITHIN_S)
        backfills = Backfills(port, row.declared, seed)
        gate = Gate() if row.declared else None
        watching = stack.enter_context(_looking(gate, admin))
        with backfills.running():
            windows = [Watched.of(_watch(honest, outage_s / 3)) for _ in range(3)]
            figures: dict[str, Any] = homeserver.ask({}, _ANSWER_WITHIN_S)["history"]
            asked, abandoned = backfills.asked, backfills.abandoned
            probes_before = gate.probes if gate else 0
            first_page_after_s = _recovery(backfills)
            time.sleep(5 * _EVERY_S)  # for a last look at the gate
        watching.set()
        if gate is not None:
            gate.probes -= probes_before
    return Result(
        row.title,
        base,
        min(windows, key=lambda window: (min(window.success.values()), -window.p99_ms)),
        figures["asked"],
        figures["most_at_once"],
        asked,
        abandoned,
        gate,
        first_page_after_s,
    )


def _watch(honest: Child, seconds: float) -> dict[str, Any]:
    return honest.ask({"seconds": seconds}, seconds + _ANSWER_WITHIN_S)


def _recovery(backfills: Backfills) -> float | None:
    """Let the homeserver recover; seconds until the first page, None where there was none in a while."""
    before = backfills.pages
    backfills.struggles = False
    began_at = time.perf_counter()
    while backfills.pages == before:
        if time.perf_counter() - began_at > _RECOVERY_WITHIN_S:
            return None
        time.sleep(_EVERY_S)
    return time.perf_counter() - began_at


@contextmanager
def _looking(gate: Gate | None, admin: int) -> Iterator[threading.Event]:
    """Look at the gate until the event is set or the block is left."""
    over = threading.Event()
    began_at = time.perf_counter()

    def look() -> None:
        while gate is not None and not over.wait(_EVERY_S):
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}/v1/status", timeout=5) as answer:
                gate.look(json.load(answer), time.perf_counter() - began_at)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield over
    finally:
        over.set()
        thread.join()


@contextmanager
def _fairgate(folder: Path, upstream: int, admin: int, core: int, hold_s: float) -> Iterator[int]:
    port, metrics = free_port(), free_port()
    settings = {
        "listen": [{"address": f"127.0.0.1:{port}"}],
        "homeserver": {"url": f"http://127.0.0.1:{upstream}"},
        "admin": {"listen": f"127.0.0.1:{admin}"},
        "metrics": {"listen": f"127.0.0.1:{metrics}"},
        "log": {"access": "none"},
        "background": BACKGROUND,
        "lanes": {
            "requests": {"history_deadline_seconds": HISTORY_DEADLINE_S},
            "max_hold_seconds": hold_s / FASTER,
        },
    }
    config = folder / "fairgate.yaml"
    config.write_text(json.dumps(settings))  # JSON is YAML
    log = folder / "fairgate.log"
    command = ["env", f"TMPDIR={folder}", sys.executable, "-m", "proxy", "run", "--config", str(config)]
    with peers.running(command, core, log, port) as started:
        for pid in started.pids():
            set_niceness(pid, FIRST)
        wait_until(lambda: _is_ready(metrics), _START_WITHIN_S, "Fairgate's /readyz", log=log)
        yield port


def _is_ready(metrics: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


_HEADS = (
    "", "given to the homeserver", "at work there at once, most", "abandoned", "honest success, worst",
    "p99 without", "p99 with, worst", "ratio", "first page after the recovery",
)  # fmt: skip


def _table(results: list[Result]) -> str:
    lines = [f"| {' | '.join(_HEADS)} |", "|---" * len(_HEADS) + "|"]
    for one in results:
        after_s = one.first_page_after_s
        cells = (
            one.title,
            f"{one.given:,}",
            str(one.most_at_once),
            f"{one.abandoned:,}",
            f"{min(one.worst.success.values()):.1%}",
            f"{one.base.p99_ms:.1f} ms",
            f"{one.worst.p99_ms:.1f} ms" if one.worst.samples else "none served",
            f"{one.worst.p99_ms / one.base.p99_ms:.1f}" if one.worst.samples else "",
            f"none in {_RECOVERY_WITHIN_S * FASTER / 60:.0f} min"
            if after_s is None
            else f"{after_s * FASTER / 60:.1f} min",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _gate_text(gate: Gate) -> str:
    zero = "never" if gate.zero_after_s is None else f"after {gate.zero_after_s * FASTER:.0f} s"
    return (
        f"Declared: background at zero {zero}; later at most {gate.most_active_later} of it let through at a time; "
        f"probes until the first page after the recovery: {gate.probes}. Times are those of the incident, 60 x the measured."
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0, help="of the incident before the recovery (1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all figures there")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results = []
    try:
        for row in ROWS:
            result = _measure(row, given.hours * 3600 / FASTER, given.seed)
            if disturbed(result.base, result.base):
                result = _measure(row, given.hours * 3600 / FASTER, given.seed)
            results.append(result)
            print(
                f"fairgate: {row.title}: {result.given} given, {result.worst.success}",
                file=sys.stderr,
                flush=True,
            )
    except ToolError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 130
    print(_table(results))
    gates = [one.gate for one in results if one.gate is not None]
    print("\n" + "\n".join(map(_gate_text, gates)))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
