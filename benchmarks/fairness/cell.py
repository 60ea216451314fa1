"""One cell of the table: a proxy in one row, measured without and then with what is beside the honest clients.

Everything is fresh: the homeserver, the proxy, the clients. The proxy has one core for itself; the homeserver and the honest
clients have another; attackers take what is left, at a lower priority, since on a real network they are elsewhere.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.fairness import proxies
from benchmarks.fairness.children import Child, Message, running_child
from benchmarks.fairness.homeserver import REQUEST_WORKERS, SYNC_WORKERS
from benchmarks.fairness.priority import LAST
from benchmarks.fairness.rows import Row
from benchmarks.fairness.scoring import Bound, Watched, disturbed, faults
from tools.processes import free_port

_START_WITHIN_S = 20
_ANSWER_WITHIN_S = 15  # beyond the window: clients' patience, and a slow machine
_WARM_UP_S = 0.8
_SETTLE_S = 1.0  # from an attack's last beginning to the first request that counts
_OUTAGE_S = 1.5
_RETURN_S = 1.0  # for clients to find the homeserver again


@dataclass(frozen=True, slots=True)
class Plan:
    """How long the windows are, and which cores take part."""

    base_s: float
    attack_s: float
    proxy_core: int
    load_core: int


@dataclass(frozen=True, slots=True)
class Cell:
    """All figures of a cell."""

    row: Row
    proxy: str
    base: Watched
    attacked: Watched
    homeserver: Message
    siege: Message
    outage: Message | None
    faults: list[str]
    repeated: bool = False

    @property
    def crowd(self) -> dict[str, int]:
        """Outcomes of the attackers or the crowd, by status."""
        outcomes: dict[str, int] = self.siege["outcomes"]
        return outcomes


class _Scene:
    """The processes of a cell."""

    def __init__(self, row: Row, proxy: str, plan: Plan, folder: Path, stack: ExitStack) -> None:
        self._plan = plan
        self._folder = folder
        self._stack = stack
        self._port = free_port()
        self._homeserver_life = ExitStack()
        stack.callback(self._end_homeserver)
        self.homeserver = self._start_homeserver()
        port = stack.enter_context(proxies.running(proxy, folder, self._port, plan.proxy_core))
        settings: Message = {"port": port, "shared_address": row.shared_address}
        self.honest = stack.enter_context(
            running_child("honest", settings, plan.load_core, folder / "honest.log")
        )
        settings = {"row": row.key, "port": port, "seconds": plan.attack_s}
        self.siege = stack.enter_context(running_child("siege", settings, None, folder / "siege.log", LAST))
        for child in (self.honest, self.siege):
            child.hear(_START_WITHIN_S)
        time.sleep(_WARM_UP_S)

    def watch(self, seconds: float) -> Message:
        """Watch the honest clients for a while."""
        return self.honest.ask({"seconds": seconds}, seconds + _ANSWER_WITHIN_S)

    def restart_homeserver(self) -> Message:
        """Kill the homeserver and start another one; tells what clients got meanwhile."""
        self.siege.ask({"do": "report"}, _ANSWER_WITHIN_S)
        self.honest.tell({"seconds": _OUTAGE_S + _RETURN_S})
        self._homeserver_life.close()
        time.sleep(_OUTAGE_S)
        self.homeserver = self._start_homeserver()
        time.sleep(_RETURN_S)
        light = self.honest.hear(_ANSWER_WITHIN_S)
        crowd = self.siege.ask({"do": "report"}, _ANSWER_WITHIN_S)
        return {"honest_failures": light["failures"], "crowd": crowd["outcomes"]}

    def _end_homeserver(self) -> None:
        self._homeserver_life.close()

    def _start_homeserver(self) -> Child:
        self._homeserver_life = ExitStack()
        child = self._homeserver_life.enter_context(
            running_child(
                "homeserver",
                {"port": self._port},
                self._plan.load_core,
                self._folder / "homeserver.log",
            )
        )
        child.hear(_START_WITHIN_S)
        return child


def measure(row: Row, proxy: str, plan: Plan, *, may_repeat: bool) -> Cell:
    """Measure a cell; once more where one of its windows was disturbed and there is time for it."""
    cell = _measured(row, proxy, plan)
    if not may_repeat or not disturbed(cell.base, cell.attacked):
        return cell
    again = _measured(row, proxy, plan)
    return Cell(
        row,
        proxy,
        again.base,
        again.attacked,
        again.homeserver,
        again.siege,
        again.outage,
        again.faults,
        repeated=True,
    )


def _measured(row: Row, proxy: str, plan: Plan) -> Cell:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fairgate-fairness-")))
        scene = _Scene(row, proxy, plan, folder, stack)
        base = Watched.of(scene.watch(plan.base_s))
        scene.siege.ask({"do": "start"}, _START_WITHIN_S)
        time.sleep(_SETTLE_S)
        outage = scene.restart_homeserver() if row.beside == "restart" else None
        attacked = Watched.of(scene.watch(plan.attack_s))
        siege = scene.siege.ask({"do": "report"}, _ANSWER_WITHIN_S)
        figures: dict[str, Any] = scene.homeserver.ask({}, _ANSWER_WITHIN_S)
    bound = Bound(REQUEST_WORKERS, SYNC_WORKERS) if proxy == proxies.OURS else None
    found = faults(row, base, attacked, siege["outcomes"], outage, figures, bound)
    return Cell(row, proxy, base, attacked, figures, siege, outage, found)
