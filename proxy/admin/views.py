"""What operators can ask of a running Fairgate, as documents that JSON can hold: the admin API, the page and `fairgate top`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from proxy import clock
from proxy.admin.explain import Asked, Finding, Rules, explain
from proxy.admin.flows import FlowRow, flow_rows, top_rows
from proxy.admin.history import History
from proxy.matrix.endpoint import Lane, Poll
from proxy.matrix.routes import find_endpoint
from proxy.observability.rule_status import homeserver_status
from proxy.observability.snapshot import Snapshot
from proxy.observability.status import status_document
from proxy.pipeline import Pipeline

_SHARED_FOR_S: Final = 0.5
#: Flows that the page and `fairgate top` show.
TOP_FLOWS: Final = 15


class Reloaded(Protocol):
    """What came of reading the settings again: keys that changed, those that wait for a restart, or the mistakes."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Keys with another value now."""

    @property
    def needs_restart(self) -> tuple[str, ...]:
        """Keys whose value in the file takes effect at the next start, this change's and earlier ones'."""

    @property
    def mistakes(self) -> tuple[str, ...]:
        """What is wrong with the file; nothing changed then."""


class Views:
    """See the module. `rules` gives the settings that `explain` reads, as they are now."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        pipeline: Pipeline,
        rules: Callable[[], Rules],
        reload: Callable[[], Reloaded],
    ) -> None:
        self.snapshot = snapshot
        self.history = History()
        pipeline.recorder.top_flows = partial(top_for_log, pipeline)
        self._pipeline = pipeline
        self._rules = rules
        self._reload = reload
        self._picture: dict[str, Any] = {}
        self._pictured_at = -_SHARED_FOR_S

    def status(self) -> dict[str, Any]:
        """Give the document of `/v1/status`."""
        return status_document(self.snapshot())

    def flows(self, by: str, top: int) -> list[dict[str, Any]]:
        """Give the flows with most of one thing."""
        return top_rows(flow_rows(self._pipeline, clock.now()).values(), by, top)

    def picture(self) -> dict[str, Any]:
        """Give status and top flows of one moment; shared by all who look within half a second."""
        now = clock.now()
        if now - self._pictured_at >= _SHARED_FOR_S:
            rows = flow_rows(self._pipeline, now).values()
            self._picture = {
                "status": self.status(),
                "flows": {by: top_rows(rows, by, TOP_FLOWS) for by in ("worker_seconds", "waits", "refused")},
            }
            self._pictured_at = now
        return self._picture

    def sample(self) -> None:
        """Keep a point of the history."""
        self.history.add(self._pipeline, clock.now(), clock.wall_time())

    def reload(self) -> Reloaded:
        """Read the settings again."""
        return self._reload()

    def explain(self, asked: Asked) -> list[Finding]:
        """Tell what holds for a request, and how full that is now."""
        return [*explain(asked, self._rules()), *self._now(asked)]

    def _now(self, asked: Asked) -> list[Finding]:
        now = clock.now()
        gates = self._pipeline.gates
        endpoint = find_endpoint(asked.method.encode(), asked.target.encode())
        row = None if asked.account is None else flow_rows(self._pipeline, now).get(asked.account)
        findings = []
        if endpoint.lane is not Lane.NONE:
            names = {figures.name: lane for lane, figures in enumerate(self._pipeline.figures.lanes)}
            lane = next(
                lane
                for lane in gates.workers.share.statistics(now, most_flows=0).lanes
                if names[lane.name] == endpoint.lane
            )
            says = (
                f"{lane.name}: {lane.running} of {lane.workers} run, {lane.held} held, {lane.waiting} in line, "
                f"the oldest for {lane.oldest_wait_s:.1f} s"
            )
            findings.append(Finding("lane now", says, ""))
        if endpoint.poll is not Poll.NONE:
            waits = gates.waits.budgets.statistics()
            says = f"{waits.used} of {waits.workers} waits in all, {waits.ghosts} of them ghosts"
            findings.append(Finding("waits now", says, ""))
        if asked.account is not None:
            findings.append(Finding("account now", _has(row), ""))
        status = homeserver_status(self.snapshot().rules)
        says = (
            f"{status['breaker']['state']}, {status['active'] + status['held']} of {status['limit']} places taken, "
            f"{status['waiting']} in line"
        )
        findings.append(Finding("gate now", says, ""))
        return findings


def _has(row: FlowRow | None) -> str:
    if row is None:
        return "has nothing, and had nothing lately"
    return (
        f"{row.running} run, {row.held} held, {row.waiting} in line, {row.waits} waits and {row.ghosts} ghosts, "
        f"{row.worker_seconds:.1f} worker-seconds, {row.refused} refused"
    )


def findings_document(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """Give findings as JSON can hold them."""
    return [finding._asdict() for finding in findings]


def reloaded_document(reloaded: Reloaded) -> dict[str, Any]:
    """Give what came of a reload as JSON can hold it."""
    return {
        "changed": list(reloaded.changed),
        "needs_restart": list(reloaded.needs_restart),
        "mistakes": list(reloaded.mistakes),
    }


def top_for_log(pipeline: Pipeline, now: float) -> list[tuple[str, float, int, int]]:
    """Give what the log's line of top flows is made of."""
    return [
        (row.flow, row.worker_seconds, row.running + row.held, row.waiting)
        for row in flow_rows(pipeline, now).values()
        if row.worker_seconds or row.waiting
    ]
