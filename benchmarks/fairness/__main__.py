"""Honest clients beside one attack at a time, through no proxy, nginx, HAProxy and Fairgate.

Usage: python -m benchmarks.fairness [--quick] [--rows KEY,…] [--proxies NAME,…] [--seconds N] [--json FILE]
Exit code 1 where Fairgate was measured and missed a row, 2 where the bench itself failed.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fairness import proxies, report
from benchmarks.fairness.cell import Cell, Plan, measure
from benchmarks.fairness.rows import ROWS, Row
from tools.console import ToolError, fail

_SECONDS = 8.0
_QUICK_SECONDS = 5.0
_WITHIN_S = 23.5 * 60  # what is disturbed is measured again as long as the run stays within this
_QUICK_WITHIN_S = 5.5 * 60
_AROUND_S = 4.0  # of a cell beside its windows
_DESCRIPTORS = 8000


@dataclass(frozen=True, slots=True)
class _Choice:
    rows: tuple[Row, ...]
    names: tuple[str, ...]
    seconds: float
    within_s: float
    json: Path | None


def _chosen(arguments: Sequence[str]) -> _Choice:
    keys = [row.key for row in ROWS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="Fairgate alone, shorter windows")
    parser.add_argument("--rows", help=f"some of: {', '.join(keys)}")
    parser.add_argument("--proxies", help=f"some of: {', '.join(proxies.NAMES)}")
    parser.add_argument(
        "--seconds", type=float, help=f"of a window under attack ({_SECONDS:g}, quick {_QUICK_SECONDS:g})"
    )
    parser.add_argument("--json", type=Path, help="write all figures there")
    given = parser.parse_args(arguments)
    rows = _some_of(keys, given.rows, parser)
    names = _some_of(proxies.NAMES, given.proxies or (proxies.OURS if given.quick else None), parser)
    seconds = given.seconds or (_QUICK_SECONDS if given.quick else _SECONDS)
    within_s = _QUICK_WITHIN_S if given.quick else _WITHIN_S
    return _Choice(tuple(row for row in ROWS if row.key in rows), names, seconds, within_s, given.json)


def _some_of(known: Sequence[str], asked: str | None, parser: argparse.ArgumentParser) -> tuple[str, ...]:
    if asked is None:
        return tuple(known)
    wanted = {name.strip().lower() for name in asked.split(",")}
    unknown = wanted - {name.lower() for name in known}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return tuple(name for name in known if name.lower() in wanted)


def _raise_descriptor_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < _DESCRIPTORS:
        raise ToolError(
            f"4,000 connections through a proxy need `ulimit -Hn` of {_DESCRIPTORS}; it is {hard}"
        )


def _measure_all(choice: _Choice, plan: Plan) -> list[Cell]:
    cells: list[Cell] = []
    number = len(choice.rows) * len(choice.names)
    began_at = time.monotonic()
    takes_s = plan.base_s + plan.attack_s + _AROUND_S
    for row in choice.rows:
        for name in choice.names:
            still_s = (number - len(cells) + 1) * takes_s
            may_repeat = time.monotonic() - began_at + still_s <= choice.within_s
            cell = measure(row, name, plan, may_repeat=may_repeat)
            cells.append(cell)
            verdict = "reached" if not cell.faults else "; ".join(cell.faults)
            _say(
                f"{len(cells)} of {number}: {row.key}, {name}: {report.cell_text(cell)}: {verdict}{report.remark(cell)}"
            )
    return cells


def _machine() -> str:
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(": ")[2]
            break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def _say(what: str) -> None:
    print(f"fairgate: {what}", file=sys.stderr, flush=True)


def _print(choice: _Choice, plan: Plan, cells: list[Cell], taken_s: float) -> bool:
    """Print the tables; tell whether Fairgate reached all of its rows."""
    titles = {name: proxies.version_of(name) for name in choice.names}
    heading = f"{time.strftime('%Y-%m-%d %H:%M')}, {_machine()}"
    command = shlex.join(["python", "-m", "benchmarks.fairness", *sys.argv[1:]])
    print(
        f"{heading}\n`{command}`, {taken_s:.0f} s; windows of {plan.base_s:g} s without and {plan.attack_s:g} s with.\n"
    )
    print("Light success, p50/p99 in ms · sync success · upload success; bold where the promise is missed.\n")
    print(report.peers_table(cells, titles))
    for name in choice.names:
        print(f"\n{titles[name]}:\n\n{report.verdicts([cell for cell in cells if cell.proxy == name])}")
    if choice.json is not None:
        told = {"machine": heading, "base_s": plan.base_s, "attack_s": plan.attack_s, "versions": titles}
        choice.json.write_text(
            json.dumps({**told, "cells": [report.document(cell) for cell in cells]}, indent=1) + "\n"
        )
    return not any(cell.faults for cell in cells if cell.proxy == proxies.OURS)


def main() -> int:
    """Measure and print."""
    choice = _chosen(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began_at = time.monotonic()
    try:
        _raise_descriptor_limit()
        proxies.demand_installed(choice.names)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) == 1:
            _say("only one core: everything takes from the proxy, compare with care")
        plan = Plan(choice.seconds / 2, choice.seconds, cores[0], cores[-1])
        cells = _measure_all(choice, plan)
    except ToolError as error:
        fail(error)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if _print(choice, plan, cells, time.monotonic() - began_at) else 1


if __name__ == "__main__":
    sys.exit(main())
