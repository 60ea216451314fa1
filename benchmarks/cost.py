"""What a request, a MiB and a parked connection cost, Fairgate beside its peers, in one run and one table.

Each proxy has one core for itself, load and upstream have another one. Rounds go over all peers, one after
another, and the median counts, since machines are noisy; ratios are of medians. Requests and answers differ from
each other, unless it says "always the same one": a proxy may remember heads, but clients are not one client.

Usage: cost.py [--quick] [--only NAME,…] [--chunked]
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

from benchmarks import peers
from benchmarks.measures import Load, demand_answer, measure_bodies, measure_load, measure_parked
from tools.console import ToolError, fail
from tools.processes import free_port

_PARKED = 5000
_HELD = 10_000
_OUR_DESCRIPTORS = 200
_HEADINGS = (
    "| proxy | CPU µs a request | lowest to highest | always the same one | requests/s | of its core "
    "| download, CPU ms/MiB | upload, CPU ms/MiB | bytes a parked connection | held |"
)


@dataclass(slots=True)
class Results:
    """All that was measured of a peer."""

    loads: list[Load] = field(default_factory=list)
    repeats: list[Load] = field(default_factory=list)
    downloads: list[float] = field(default_factory=list)
    uploads: list[float] = field(default_factory=list)
    parked_bytes: float = 0.0
    held: int = 0

    def cpu_us(self) -> float:
        """Give the CPU µs a request, where each is another one."""
        return median(load.cpu_us for load in self.loads)

    def repeated_cpu_us(self) -> float:
        """Give the CPU µs a request, where all are the same."""
        return median(load.cpu_us for load in self.repeats)

    def row(self, name: str) -> str:
        """Give the line of the table."""
        costs = [load.cpu_us for load in self.loads]
        rate = median(load.requests_per_s for load in self.loads)
        busy = median(load.busy for load in self.loads)
        return (
            f"| {name} | {self.cpu_us():.1f} | {min(costs):.1f} to {max(costs):.1f} "
            f"| {self.repeated_cpu_us():.1f} | {rate:,.0f} | {busy:.0%} "
            f"| {median(self.downloads):.3f} | {median(self.uploads):.3f} "
            f"| {self.parked_bytes:,.0f} | {self.held:,} |"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how often."""

    names: Sequence[str]
    rounds: int
    window_s: float
    bodies: int
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
                measure_load(peer, 1, load_core, distinct=True)
            for number in range(plan.rounds):
                for name, peer in running.items():
                    _say(f"round {number + 1} of {plan.rounds}: {name}")
                    results[name].loads.append(measure_load(peer, plan.window_s, load_core, distinct=True))
                    results[name].repeats.append(measure_load(peer, plan.window_s, load_core, distinct=False))
                    down, up = measure_bodies(peer, plan.bodies)
                    results[name].downloads.append(down)
                    results[name].uploads.append(up)
        for name in plan.names:
            _say(f"parked connections: {name}")
            with _peer(name, folder, upstream, proxy_core) as peer:
                measure_load(peer, 1, load_core, distinct=True)
                held = _HELD if name == "Fairgate" else _PARKED
                results[name].parked_bytes, results[name].held = measure_parked(peer, _PARKED, held)
    return results


def _peer(name: str, folder: Path, upstream: int, core: int) -> AbstractContextManager[peers.Running]:
    port = free_port()
    log = folder / f"{name.replace(' ', '-')}.log"
    return peers.running(peers.command_of(name, folder, port, upstream), core, log, port)


def table(results: dict[str, Results], versions: dict[str, str]) -> str:
    """Put the results together in Markdown."""
    lines = [
        _HEADINGS,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(result.row(f"{name} {versions[name]}") for name, result in results.items()),
    ]
    if "Fairgate" in results:
        lines += ["", "| target | measured | |", "|---|--:|---|"]
        lines += [
            f"| {what} | {value:{form}} | {'reached' if good else 'not reached'} |"
            for what, value, form, good in _verdicts(results)
        ]
    return "\n".join(lines)


def _verdicts(results: dict[str, Results]) -> list[tuple[str, float, str, bool]]:
    ours = results["Fairgate"]
    wanted: list[tuple[str, float, str, float]] = []
    if nginx := results.get("nginx"):
        wanted.append(("CPU a request, at most 1.5 times nginx", ours.cpu_us() / nginx.cpu_us(), ".2f", 1.5))
        ratio = ours.repeated_cpu_us() / nginx.repeated_cpu_us()
        wanted.append(("always the same request, at most 1.5 times nginx", ratio, ".2f", 1.5))
        for what in ("downloads", "uploads"):
            ratio = median(getattr(ours, what)) / median(getattr(nginx, what))
            wanted.append((f"CPU a MiB of {what}, at most 2 times nginx", ratio, ".2f", 2))
    if caddy := results.get("Caddy"):
        wanted.append(
            ("CPU a request, at most 0.45 times Caddy", ours.cpu_us() / caddy.cpu_us(), ".2f", 0.45)
        )
        ratio = ours.repeated_cpu_us() / caddy.repeated_cpu_us()
        wanted.append(("always the same request, at most 0.45 times Caddy", ratio, ".2f", 0.45))
    wanted.append(("bytes a parked connection, at most 1,800", ours.parked_bytes, ",.0f", 1800))
    verdicts = [(what, value, form, value <= most) for what, value, form, most in wanted]
    return [*verdicts, ("parked connections held, 10,000", ours.held, ",", ours.held >= _HELD)]


def _machine() -> str:
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(": ")[2]
            break
    return f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def _say(what: str) -> None:
    print(f"fairgate: {what}", file=sys.stderr, flush=True)


def _plan(arguments: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of a second each")
    parser.add_argument("--only", default=",".join(peers.NAMES), help="some of: %(default)s")
    parser.add_argument("--chunked", action="store_true", help="the upstream's small answer is chunked")
    given = parser.parse_args(arguments)
    asked = [name.strip().lower() for name in given.only.split(",")]
    unknown = sorted(set(asked) - {name.lower() for name in peers.NAMES})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(peers.NAMES)}")
    names = [name for name in peers.NAMES if name.lower() in asked]
    if given.quick:
        return Plan(names, rounds=1, window_s=1, bodies=1, chunked=given.chunked)
    return Plan(names, rounds=3, window_s=3, bodies=3, chunked=given.chunked)


def _raise_descriptor_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < _HELD + _OUR_DESCRIPTORS:
        raise ToolError(
            f"{_HELD:,} connections need `ulimit -Hn` of {_HELD + _OUR_DESCRIPTORS}; it is {hard}"
        )


def main() -> int:
    """Measure and print."""
    plan = _plan(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began_at = time.monotonic()
    try:
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
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {_machine()}.")
    taken_s = time.monotonic() - began_at
    command = shlex.join(["python", *sys.argv])
    print(f"`{command}`, {taken_s:.0f} s; median of {plan.rounds}, answer: {answer}.\n")
    print(table(results, versions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
