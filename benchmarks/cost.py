"""What a request, a MiB and a parked connection cost, Fairgate beside its peers, in one run and one table.

Machines change their speed by half within seconds, so what counts is a ratio of neighbours: all proxies stay up,
windows of about a second go in turn, every second one is nginx's, and the cost in a window is divided by the
mean of the two nginx windows around it. Reported is the median of these ratios with the lowest and the highest;
the row of nginx has each of its windows divided by the one before, which is what the machine's noise leaves.
Each proxy has one core for itself, load and upstream have another one. Requests and answers differ from each
other, unless it says "the same one": a proxy may remember heads, but clients are not one client.

Usage: cost.py [--rounds N] [--only NAME,…] [--chunked] [--this-python]
"""

import argparse
import os
import platform
import resource
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also run as a script

from benchmarks import interpreter, peers
from benchmarks.measures import (
    Window,
    demand_answer,
    measure_download,
    measure_parked,
    measure_requests,
    measure_upload,
)
from tools.console import ToolError, fail
from tools.processes import free_port

_REFERENCE = "nginx"
_WARM_UP_S = 4  # enough for a proxy that looks accounts up to have seen them all
_PARKED = 5000
_HELD = 10_000
_OUR_DESCRIPTORS = 200
_KINDS = ("new", "same", "download", "upload")
_REQUESTS_HEADING = (
    "| proxy | a new request, CPU µs | of nginx | range | the same one again, CPU µs | of nginx | range "
    "| requests/s | of its core |"
)
_BODIES_HEADING = (
    "| proxy | download, CPU ms/MiB | of nginx | range | upload, CPU ms/MiB | of nginx | range "
    "| bytes a parked connection | held |"
)
_RULE = "|---|" + "--:|" * 8


@dataclass(slots=True)
class Series:
    """The windows of one kind on one proxy, and each one's ratio to its neighbours of the reference."""

    windows: list[Window] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    def add(self, window: Window, *neighbours: Window) -> None:
        """Take a window that was measured between these."""
        self.windows.append(window)
        if neighbours:
            self.ratios.append(window.cost * len(neighbours) / sum(each.cost for each in neighbours))

    def cells(self, digits: int) -> str:
        """Give the median cost, the median ratio and its range."""
        cost = median(window.cost for window in self.windows)
        spread = f"{median(self.ratios):.2f} | {min(self.ratios):.2f} to {max(self.ratios):.2f}"
        return f"{cost:.{digits}f} | {spread}"


@dataclass(slots=True)
class Results:
    """All that was measured of a proxy."""

    kinds: dict[str, Series] = field(default_factory=lambda: {kind: Series() for kind in _KINDS})
    parked_bytes: float = 0.0
    held: int = 0

    def ratio(self, kind: str) -> float:
        """Give the median ratio to the reference."""
        return median(self.kinds[kind].ratios)


@dataclass(frozen=True, slots=True)
class Plan:
    """Whom to measure, and how often."""

    names: Sequence[str]
    rounds: int
    chunked: bool


def measure(plan: Plan, proxy_core: int, load_core: int) -> dict[str, Results]:
    """Start the upstream and the peers, go the rounds, then park connections at a fresh start of each."""
    results = {name: Results() for name in plan.names}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairgate-cost-")))
        upstream = free_port()
        script = [sys.executable, str(Path(__file__).with_name("upstream.py")), str(upstream)]
        script += ["chunked"] if plan.chunked else []
        stack.enter_context(peers.running(script, load_core, folder / "upstream.log", upstream))
        with ExitStack() as started:
            running = {
                name: started.enter_context(_peer(name, folder, upstream, proxy_core)) for name in plan.names
            }
            for peer in running.values():
                demand_answer(peer)
                measure_requests(peer, load_core, distinct=True, seconds=_WARM_UP_S)
            for number in range(plan.rounds):
                for kind in _KINDS:
                    _say(f"round {number + 1} of {plan.rounds}: {kind}")
                    _go_round(kind, running, load_core, results)
        for name in plan.names:
            _say(f"parked connections: {name}")
            with _peer(name, folder, upstream, proxy_core) as peer:
                measure_requests(peer, load_core, distinct=True)
                held = _HELD if name == "Fairgate" else _PARKED
                results[name].parked_bytes, results[name].held = measure_parked(peer, _PARKED, held)
    return results


def _go_round(
    kind: str, running: dict[str, peers.Running], load_core: int, results: dict[str, Results]
) -> None:
    """Measure every proxy once, each between two windows of the reference."""
    reference = results[_REFERENCE].kinds[kind]
    before = _window(kind, running[_REFERENCE], load_core)
    reference.add(before)
    for name, peer in running.items():
        if name == _REFERENCE:
            continue
        window = _window(kind, peer, load_core)
        after = _window(kind, running[_REFERENCE], load_core)
        results[name].kinds[kind].add(window, before, after)
        reference.add(after, before)
        before = after


def _window(kind: str, peer: peers.Running, load_core: int) -> Window:
    if kind == "download":
        return measure_download(peer)
    if kind == "upload":
        return measure_upload(peer)
    return measure_requests(peer, load_core, distinct=kind == "new")


def _peer(name: str, folder: Path, upstream: int, core: int) -> AbstractContextManager[peers.Running]:
    port = free_port()
    log = folder / f"{name.replace(' ', '-')}.log"
    return peers.running(peers.command_of(name, folder, port, upstream), core, log, port)


def table(results: dict[str, Results], versions: dict[str, str]) -> str:
    """Put the results together in Markdown."""
    lines = [_REQUESTS_HEADING, _RULE]
    for name, result in results.items():
        new, same = result.kinds["new"], result.kinds["same"]
        rate, busy = (median(getattr(each, what) for each in new.windows) for what in ("per_s", "busy"))
        row = f"| {name} {versions[name]} | {new.cells(1)} | {same.cells(1)} | {rate:,.0f} | {busy:.0%} |"
        lines.append(row)
    lines += ["", _BODIES_HEADING, _RULE]
    for name, result in results.items():
        bodies = " | ".join(result.kinds[kind].cells(3) for kind in ("download", "upload"))
        lines.append(f"| {name} | {bodies} | {result.parked_bytes:,.0f} | {result.held:,} |")
    if "Fairgate" in results:
        lines += ["", "| target | measured | |", "|---|--:|---|"]
        lines += [
            f"| {what} | {value:{form}} | {'reached' if good else 'not reached'} |"
            for what, value, form, good in _verdicts(results)
        ]
    return "\n".join(lines)


def _verdicts(results: dict[str, Results]) -> list[tuple[str, float, str, bool]]:
    ours = results["Fairgate"]
    wanted: list[tuple[str, float, str, float]] = [
        ("CPU of a new request, at most 1.8 times nginx", ours.ratio("new"), ".2f", 1.8),
        ("the same one again, at most 1.8 times nginx", ours.ratio("same"), ".2f", 1.8),
        ("CPU of a MiB down, at most 2 times nginx", ours.ratio("download"), ".2f", 2),
        ("CPU of a MiB up, at most 2 times nginx", ours.ratio("upload"), ".2f", 2),
    ]
    if caddy := results.get("Caddy"):
        for kind, what in (("new", "CPU of a new request"), ("same", "the same one again")):
            ratio = ours.ratio(kind) / caddy.ratio(kind)
            wanted.append((f"{what}, at most 0.45 times Caddy", ratio, ".2f", 0.45))
    wanted.append(("bytes a parked connection, at most 1,800", ours.parked_bytes, ",.0f", 1800))
    verdicts = [(what, value, form, value <= most) for what, value, form, most in wanted]
    return [*verdicts, ("parked connections held, 10,000", ours.held, ",", ours.held >= _HELD)]


def _machine() -> str:
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(": ")[2]
            break
    return f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}"


def _say(what: str) -> None:
    print(f"fairgate: {what}", file=sys.stderr, flush=True)


def _plan(arguments: Sequence[str]) -> tuple[Plan, bool]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=9, help="windows of each kind on each proxy: %(default)s"
    )
    parser.add_argument("--only", default=",".join(peers.NAMES), help="beside nginx, some of: %(default)s")
    parser.add_argument("--chunked", action="store_true", help="the upstream's small answer is chunked")
    parser.add_argument("--this-python", action="store_true", help="do not look for a faster Python")
    given = parser.parse_args(arguments)
    asked = [name.strip().lower() for name in given.only.split(",")]
    unknown = sorted(set(asked) - {name.lower() for name in peers.NAMES})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(peers.NAMES)}")
    if given.rounds < 1:
        parser.error("--rounds: at least one")
    names = [name for name in peers.NAMES if name.lower() in asked or name == _REFERENCE]
    return Plan(names, given.rounds, given.chunked), given.this_python


def _raise_descriptor_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < _HELD + _OUR_DESCRIPTORS:
        raise ToolError(
            f"{_HELD:,} connections need `ulimit -Hn` of {_HELD + _OUR_DESCRIPTORS}; it is {hard}"
        )


def main() -> int:
    """Measure and print."""
    plan, this_python = _plan(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began_at, load = time.monotonic(), os.getloadavg()[0]
    try:
        if not this_python:
            interpreter.continue_in_the_fastest()
        _raise_descriptor_limit()
        peers.ensure_installed(plan.names)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            _say("only one core: the load takes from the proxies, compare with care")
        os.sched_setaffinity(0, {cores[-1]})
        results = measure(plan, cores[0], cores[-1])
    except ToolError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 130
    versions = {name: peers.version_of(name) for name in plan.names}
    answer = "chunked" if plan.chunked else "Content-Length"
    taken_s = time.monotonic() - began_at
    command = shlex.join(sys.orig_argv).replace(sys.executable, "python")
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {_machine()}, {interpreter.description()}.")
    print(
        f"`{command}`, {taken_s:.0f} s; {plan.rounds} windows of each kind, answer: {answer}, load before: {load:.1f}.\n"
    )
    print(table(results, versions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
