"""The table of a run, its verdicts, and all figures as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.fairness.cell import Cell
from benchmarks.fairness.rows import ROWS
from benchmarks.fairness.scoring import allowed_ms, disturbed, percentile


def cell_text(cell: Cell) -> str:
    """Give `light success p50/p99 · sync · upload`, and a crowd's success."""
    seen = cell.attacked
    times = "" if math.isnan(seen.p99_ms) else f" {seen.p50_ms:.1f}/{seen.p99_ms:.1f}"
    parts = [
        f"{seen.success['light']:.2f}{times}",
        *(f"{seen.success[kind]:.2f}" for kind in ("sync", "upload")),
    ]
    if cell.row.beside != "attack":
        all_of_it = sum(cell.crowd.values())
        parts.append(f"crowd {cell.crowd.get('200', 0) / all_of_it if all_of_it else 0:.2f}")
    text = " · ".join(parts)
    return f"**{text}**" if cell.faults else text


def peers_table(cells: Sequence[Cell], titles: dict[str, str]) -> str:
    """Put all cells together; bold ones miss the promise."""
    found = {(cell.row.key, cell.proxy): cell for cell in cells}
    rows = [row for row in ROWS if any(cell.row.key == row.key for cell in cells)]
    lines = [
        "| beside the honest clients | " + " | ".join(titles.values()) + " |",
        "|---|" + "---|" * len(titles),
    ]
    for row in rows:
        texts = [cell_text(found[row.key, name]) if (row.key, name) in found else "" for name in titles]
        lines.append(f"| {row.title} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def verdicts(cells: Sequence[Cell]) -> str:
    """List a proxy's rows with what was asked and what was reached."""
    lines = [
        "| beside the honest clients | p99 without | p99 with | ratio | may be | at the homeserver at once | verdict |",
        "|---|--:|--:|--:|--:|---|---|",
    ]
    for cell in cells:
        at_once = "/".join(
            str(cell.homeserver[pool]["most_at_once"]) for pool in ("requests", "syncs", "lookups")
        )
        verdict = "; ".join(cell.faults) or "reached"
        lines.append(
            f"| {cell.row.title} | {cell.base.p99_ms:.1f} | {cell.attacked.p99_ms:.1f} "
            f"| {cell.attacked.p99_ms / cell.base.p99_ms:.2f} | {allowed_ms(cell.row, cell.base):.1f} ms "
            f"| {at_once} | {verdict}{remark(cell)} |"
        )
    return "\n".join(lines)


def remark(cell: Cell) -> str:
    """Tell where the machine was busy."""
    if disturbed(cell.base, cell.attacked):
        return " (disturbed: the machine was busy)"
    return " (measured again: the first time was disturbed)" if cell.repeated else ""


def document(cell: Cell) -> dict[str, Any]:
    """Give all figures of a cell for JSON; NaN is null."""
    told: dict[str, Any] = {
        "row": cell.row.key,
        "proxy": cell.proxy,
        "passed": not cell.faults,
        "faults": cell.faults,
        "repeated": cell.repeated,
        "disturbed": disturbed(cell.base, cell.attacked),
        "allowed_ms": allowed_ms(cell.row, cell.base),
        "base": asdict(cell.base),
        "attacked": asdict(cell.attacked),
        "homeserver": cell.homeserver,
        "beside": {
            "began": cell.siege["began"],
            "outcomes": cell.crowd,
            "p50_ms": percentile(cell.siege["ms"], 50),
            "p99_ms": percentile(cell.siege["ms"], 99),
        },
        "outage": cell.outage,
    }
    cleaned: dict[str, Any] = _without_nan(told)
    return cleaned


def _without_nan(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _without_nan(value) for key, value in told.items()}
    if isinstance(told, list):
        return [_without_nan(value) for value in told]
    return None if isinstance(told, float) and math.isnan(told) else told
