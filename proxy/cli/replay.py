"""`fairgate replay`: reads a log, runs it through other settings, and tells who would have waited or been refused."""

import contextlib
import gc
import gzip
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from proxy import parts
from proxy.config.settings import Settings
from proxy.matrix.profiles import GENERIC
from proxy.simulation.recorded import Format, Recorded, find_format
from proxy.simulation.replay import Fate, Result, Rules, in_order, replay

_LOOKED_AT: Final = 200  # lines that tell the format
_STEP: Final = 2000  # lines between two looks at the progress
_MAX_LINE: Final = 65_536


class UnreadableLogError(Exception):
    """No known kind of log; the text says so in one line."""


class Reading(Counter[str]):
    """Counts `lines` and `unread`, while a log is read."""


def run(path: Path, settings: Settings, profile: str | None, console: Console) -> tuple[Result, Reading, str]:
    """Replay a file; progress goes to `console`. Give the result, what was read, and the log's format.

    Raises:
        UnreadableLogError: if no known kind of log is in it.
        OSError: if it cannot be read.
    """
    kind = _format_of(path)
    reading = Reading()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        requests = _requests(path, kind, settings, reading, progress)
        ordered = in_order(requests) if kind.ordered_by_end else in_order(requests, 1.0)
        gc.disable()  # nothing here makes cycles, and looking for them is a sixth of the time
        try:
            return replay(ordered, rules_of(settings, profile)), reading, kind.name
        finally:
            gc.enable()


def rules_of(settings: Settings, profile: str | None) -> Rules:
    """Give the rules of the settings to try; `profile` over theirs, `auto` counts as generic."""
    named = profile or settings.homeserver.profile
    exemptions = parts.exemptions(settings)

    def is_exempt(account: str, device: str | None, appservice: bool) -> bool:  # noqa: FBT001 - a callback's shape
        return exemptions.cover(account, device, guest=False, appservice=appservice)

    return Rules(
        parts.figures_of(settings, GENERIC if named == "auto" else named),
        history_per_account=settings.lanes.history_per_account,
        address_share=settings.lanes.address_share,
        max_lead_s=settings.lanes.max_lead_seconds,
        grace_s=settings.sync.grace_seconds,
        max_timeout_s=settings.sync.max_timeout_seconds,
        exempt=is_exempt,
    )


def document(result: Result, reading: Reading, kind: str, profile: str, top: int) -> dict[str, Any]:
    """Give the result as JSON can hold it."""
    waits = result.waits
    return {
        "log": {"format": kind, **reading, "without_duration": result.without_duration},
        "from": result.first_at,
        "to": result.last_at,
        "profile": profile,
        "requests": result.total.asked,
        "by_class": result.by_class,
        "would_wait": result.total.waited,
        "wait_seconds": {"p50": waits.quantile_s(0.5), "p99": waits.quantile_s(0.99), "longest": waits.longest_s},
        "would_be_refused": result.total.refused,
        "was_refused": result.total.was_refused,
        "most_running": result.most_running,
        "most_polls": result.most_polls,
        "worker_seconds": result.total.worker_seconds,
        "flows_in_all": len(result.flows),
        "flows": [{"flow": flow, **_fate(fate)} for flow, fate in _touched(result, top)],
    }  # fmt: skip


def tables(told: dict[str, Any]) -> RenderableType:
    """Draw what `document` gave."""
    head = Table.grid(padding=(0, 2))
    refused = ", ".join(f"{reason} {times}" for reason, times in told["would_be_refused"].items()) or "none"
    log, waits = told["log"], told["wait_seconds"]
    for name, value in (
        ("log", f"{log['format']}, {log['lines']} lines, {log['unread']} unread, {log['without_duration']} without a duration"),
        ("time", f"{_moment(told['from'])} to {_moment(told['to'])}"),
        ("requests", f"{told['requests']} of {told['flows_in_all']} flows, profile {told['profile']}"),
        ("would wait", f"{told['would_wait']}, at most {waits['longest']:.1f} s"),
        ("waits of all", f"p50 {waits['p50']:.3f} s, p99 {waits['p99']:.3f} s"),
        ("would be refused", refused),
        ("was refused", str(told["was_refused"])),
        ("at most", f"{told['most_running']} running, {told['most_polls']} long polls"),
    ):  # fmt: skip
        head.add_row(Text(name, "bold"), Text(value))
    flows = Table(title="who would have waited or been refused", title_justify="left")
    flows.add_column("flow", overflow="fold")
    for name in ("requests", "wait", "longest", "refused", "was refused", "worker-s"):
        flows.add_column(name, justify="right")
    for flow in told["flows"]:
        name = "".join(c if c.isprintable() else "�" for c in flow["flow"])
        flows.add_row(
            Text(name),
            str(flow["requests"]),
            str(flow["would_wait"]),
            f"{flow['longest_wait_seconds']:.1f} s",
            ", ".join(f"{reason} {times}" for reason, times in flow["would_be_refused"].items()) or "-",
            str(flow["was_refused"]),
            f"{flow['worker_seconds']:.1f}",
        )
    return Group(head, flows if told["flows"] else Text("Nobody would have waited or been refused.", "green"))


def _fate(fate: Fate) -> dict[str, Any]:
    return {
        "requests": fate.asked,
        "would_wait": fate.waited,
        "longest_wait_seconds": fate.longest_wait_s,
        "would_be_refused": fate.refused,
        "was_refused": fate.was_refused,
        "worker_seconds": fate.worker_seconds,
    }


def _touched(result: Result, top: int) -> list[tuple[str, Fate]]:
    touched = [(flow, fate) for flow, fate in result.flows.items() if fate.waited or fate.refused]
    touched.sort(key=lambda item: (-item[1].refused_in_all, -item[1].waited, item[0]))
    return touched[:top]


def _format_of(path: Path) -> Format:
    with _opened(path) as file:
        lines = [line for line, _ in zip(_lines(file), range(_LOOKED_AT), strict=False)]
    found = find_format(lines)
    if found is None:
        raise UnreadableLogError(
            "neither a trace of Fairgate nor an access log of Synapse, HAProxy (httplog), nginx or Apache (combined)"
        )
    return found


def _requests(
    path: Path, kind: Format, settings: Settings, reading: Reading, progress: Progress
) -> Iterator[Recorded]:
    keys = parts.client_keys(settings)
    task = progress.add_task("replaying", total=path.stat().st_size)
    parse = kind.parse
    with path.open("rb") as raw, _opened(path, raw) as file:
        number = unread = 0
        for number, line in enumerate(_lines(file), 1):
            if number % _STEP == 0:
                progress.update(task, completed=raw.tell())
            one = parse(line)
            if one is None:
                unread += 1
                continue
            if kind.name != "trace":  # whose addresses are client keys already
                with contextlib.suppress(ValueError):  # a name, or nothing
                    key = keys.resolve(one.address).key
                    if key != one.address:
                        one = one._replace(address=key)
            yield one
    reading.update(lines=number, unread=unread)
    progress.update(task, completed=path.stat().st_size)


@contextlib.contextmanager
def _opened(path: Path, raw: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    with contextlib.ExitStack() as stack:
        file = raw or stack.enter_context(path.open("rb"))
        yield gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file  # type: ignore[misc]


def _lines(file: IO[bytes]) -> Iterator[str]:
    while line := file.readline(_MAX_LINE):
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
