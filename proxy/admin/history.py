"""The last ten minutes of what an operator would rather see than read, in a point every two seconds."""

from collections import deque
from typing import Any, Final

from proxy.errors import Reason
from proxy.pipeline import Pipeline

EVERY_S: Final = 2.0
POINTS: Final = 300


class History:
    """A point is a tuple in the order of COLUMNS; about 100 KiB in all."""

    COLUMNS: Final = (
        "at", "running", "held", "waiting", "waits", "ghosts", "gate_limit", "gate_taken", "gate_waiting", "breaker",
        "requests", "refused", "reported", "lag_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self._points: deque[tuple[float, ...]] = deque(maxlen=POINTS)
        self._expected_at: float | None = None

    def add(self, pipeline: Pipeline, now: float, wall_time: float) -> None:
        """Take a point; called every EVERY_S seconds. `requests`, `refused` and `reported` count since start."""
        lanes = pipeline.workers.share.statistics(now, most_flows=0).lanes
        waits = pipeline.waits.budgets.statistics()
        gate = pipeline.background.gate.statistics(now)
        lag_s = 0.0 if self._expected_at is None else max(0.0, now - self._expected_at)
        self._expected_at = now + EVERY_S
        self._points.append(
            (
                round(wall_time, 1),
                sum(lane.running for lane in lanes),
                sum(lane.held for lane in lanes),
                sum(lane.waiting for lane in lanes),
                waits.live,
                waits.ghosts,
                gate.limit,
                gate.active + gate.held,
                gate.waiting,
                float(gate.state),
                sum(pipeline.requests_total),
                sum(pipeline.refused_total[reason] for reason in Reason),
                sum(pipeline.recorder.reported_total.values()),
                round(lag_s * 1000, 1),
            )
        )

    def document(self) -> dict[str, Any]:
        """Give all points, the oldest first."""
        return {"every_seconds": EVERY_S, "columns": list(self.COLUMNS), "points": list(self._points)}
