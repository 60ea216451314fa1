"""`fairgate top`: the page for operators in a terminal. Pure but for `watch`, which asks and draws."""

import time
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.cli.admin_client import AdminClient, AdminError

_BAR: Final = 20
_REASONS: Final = 8


def screen(status: dict[str, Any], flows: list[dict[str, Any]], by: str) -> RenderableType:
    """Draw one picture; the greatest lines first, so that a small terminal has what matters."""
    return Group(_head(status), _lanes(status), _gates(status), _flows(flows, by), _reasons(status))


def watch(client: AdminClient, console: Console, by: str, every_s: float) -> None:
    """Draw until interrupted; an answer that does not come is told and asked for again."""
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                picture = look(client, by, console.height)
            except AdminError as error:
                picture = Text(f"{error}\nTrying again.", style="bold red")
            live.update(picture, refresh=True)
            time.sleep(every_s)


def look(client: AdminClient, by: str, height: int) -> RenderableType:
    """Ask for one picture.

    Raises:
        AdminError: if it does not come.
    """
    status = client.get("/v1/status")
    top = max(5, height - 26)
    flows = client.get("/v1/flows", [("by", by), ("top", str(top))])
    try:
        return screen(status, flows["flows"], by)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise client.no_fairgate() from None


def _head(status: dict[str, Any]) -> RenderableType:
    gate = status["homeservers"][0]
    failing_s = status["upstream"]["pool"]["failing_seconds"]
    text = Text(f"Fairgate {status['build']['version']} before {gate['key']} ", style="bold")
    text.append(
        f"({status['profile']['name'] or 'not known yet'}), up {status['uptime_seconds']:.0f} s", "dim"
    )
    reporting = [rule for rule, mode in status["modes"].items() if mode == "report"]
    if reporting:
        text.append(f", only reporting: {', '.join(reporting)}", "yellow")
    if status["stopping"]:
        text.append("  stopping", "bold yellow")
    if status["settings"]["mistakes"]:
        text.append("  the settings file is wrong, those of before hold", "bold red")
    if failing_s is not None:
        text.append(f"  the homeserver cannot be reached for {failing_s:.0f} s", "bold red")
    return text


def _lanes(status: dict[str, Any]) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    table.add_column("lane")
    table.add_column("", width=_BAR)
    for name in ("run", "held", "of", "in line", "oldest", "wait/bound"):
        table.add_column(name, justify="right")
    for lane in status["workers"]["lanes"]:
        ratio = lane["worst_wait_ratio"]
        table.add_row(
            lane["name"],
            _bar(lane["running"], lane["held"], lane["workers"]),
            str(lane["running"]),
            str(lane["held"]),
            str(lane["workers"]),
            Text(str(lane["waiting"]), "red" if lane["waiting"] else ""),
            f"{lane['oldest_wait_seconds']:.1f} s",
            Text(f"{ratio:.2f}", "bold red" if ratio > 1 else ""),
        )
    return table


def _bar(running: int, held: int, workers: int) -> Text:
    whole = max(workers, running + held, 1)
    run, kept = round(_BAR * running / whole), round(_BAR * held / whole)
    text = Text("█" * run, "blue")
    text.append("█" * kept, "yellow")
    text.append("·" * max(0, _BAR - run - kept), "dim")
    return text


def _gates(status: dict[str, Any]) -> RenderableType:
    waits, gate, process = status["waits"], status["homeservers"][0], status["process"]
    breaker = gate["breaker"]
    lines = Text()
    lines.append(f"polls {waits['used']} of {waits['limit']}, {waits['ghosts']} ghosts   gate ")
    lines.append(breaker["state"], "green" if breaker["state"] == "admitting" else "bold red")
    lines.append(f", {gate['active']}+{gate['held']} of {gate['limit']}, {gate['waiting']} in line   ")
    lines.append(f"loop lag {process['loop_lag_worst_seconds'] * 1000:.0f} ms   ")
    lines.append(
        f"upstream {status['upstream']['pool']['busy']} busy, {status['upstream']['pool']['waiting']} wait"
    )
    return lines


def _flows(flows: list[dict[str, Any]], by: str) -> RenderableType:
    table = Table(box=None, pad_edge=False, title=f"top flows by {by}", title_justify="left")
    table.add_column("flow", overflow="ellipsis", no_wrap=True)
    for name in ("worker-s", "run", "held", "in line", "polls", "refused", "KiB kept"):
        table.add_column(name, justify="right")
    for flow in flows:
        figures = (
            f"{flow['worker_seconds']:.1f}",
            *(str(flow[key]) for key in ("running", "held", "waiting")),
            str(flow["waits"] + flow["ghosts"]),
            str(flow["refused"]),
            f"{flow['kept_bytes'] / 1024:.0f}",
        )
        table.add_row(_printable(flow["flow"]), *figures)
    return table


def _printable(text: str) -> Text:
    """Whatever a homeserver calls an account, it draws nothing on the terminal."""
    return Text("".join(c if c.isprintable() else "�" for c in text))


def _reasons(status: dict[str, Any]) -> RenderableType:
    refused = sorted(status["refused_total"].items(), key=lambda item: -item[1])
    told = [f"{reason} {count}" for reason, count in refused[:_REASONS] if count]
    reported = sum(status["reported_total"].values())
    would = f"   would be refused: {reported}" if reported else ""
    return Text(f"refused: {', '.join(told) or 'nobody'}{would}")
