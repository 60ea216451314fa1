"""What each has had: worker-seconds by flow and by source, comparable between those that compete.

A *flow* is whom workers are shared between; a *source* is where its requests come from. Both have a figure in worker-seconds:
a flow's grows by 1 a second for each worker it holds, a source's by that divided by its active confirmed flows (at most 8).
The *level* is the figure at which a worker was last given to somebody in line. It only rises. Three rules keep figures fair:

- Who gets a worker from the line counts as having had at least the level: idling earns nothing.
- Nobody counts as having had more than the level and `max_lead_s`: a long past alone starves nobody.
- A *period* begins when somebody must wait and nobody did, or when one without a worker must wait and a worker was free
  since the last time. Until then everybody got what was asked, so nobody is owed anything: all begin it even.

The second and third rule make figures of the past worthless, so records of flows and sources that left may be dropped.
Figures are brought up to date only while somebody waits; otherwise two additions per request are all that is kept.
ADR 0010 has the reasons. Pure; the order itself is `fair_queue.py`.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from proxy.mechanisms.fair_queue import Bundle, Queue

#: Flows at one source that its figure is divided by, at most: more would make new accounts pay.
MOST_DIVIDING: Final = 8


class Level:
    """What those who compete for the same workers are measured by: one for each pool of workers."""

    __slots__ = ("began_at", "began_with", "max_lead_s", "period", "value")

    def __init__(self, max_lead_s: float) -> None:
        self.max_lead_s = max_lead_s
        self.value = 0.0
        self.period = 0
        self.began_at = 0.0
        self.began_with = 0.0

    def begin_period(self, now: float) -> None:
        """Let all begin even: no figure of before exceeds the new level."""
        self.value += self.max_lead_s
        self.period += 1
        self.began_at = now
        self.began_with = self.value

    def reach(self, figure: float) -> None:
        """Rise to the figure of one who was served from the line before all others."""
        self.value = max(self.value, figure)


class Flow:
    """One of those that workers are shared between.

    `spent_s + holds * now` is its true worker-seconds since it is remembered, `figure(now)` what counts in the order.
    """

    __slots__ = (
        "held",
        "history",
        "holds",
        "idle_at",
        "key",
        "period",
        "queues",
        "spent_s",
        "waiting",
        "zero_s",
    )

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.holds = 0  # workers, held ones included
        self.held = 0
        self.history = 0  # history reads among `holds`
        self.waiting = 0
        self.spent_s = 0.0
        self.zero_s = 0.0
        self.period = -1
        self.idle_at = 0.0
        self.queues: dict[int, Queue[Any]] = {}  # by code of lane and kind; only those with something in them

    def worker_seconds(self, now: float) -> float:
        """Give what it had in all, running time included."""
        return self.spent_s + self.holds * now

    def figure(self, now: float) -> float:
        """Give what counts in the order."""
        return self.spent_s + self.holds * now - self.zero_s

    def bring_up(self, level: Level) -> None:
        """Begin the present period, if it has not yet: with the time its workers ran in it, and nothing else."""
        if self.period != level.period:
            self.period = level.period
            self.zero_s = self.spent_s + self.holds * level.began_at - level.began_with

    def raise_to(self, figure: float, now: float) -> None:
        """Count as having had at least this."""
        missing = figure - self.figure(now)
        if missing > 0:
            self.zero_s -= missing

    def lower_to(self, figure: float, now: float) -> None:
        """Count as having had at most this."""
        excess = self.figure(now) - figure
        if excess > 0:
            self.zero_s += excess


class Source:
    """Where requests come from; flows of one source count as at most `MOST_DIVIDING`."""

    __slots__ = (
        "blocked",
        "by_lane",
        "figure_s",
        "figured_at",
        "flows",
        "holds",
        "key",
        "period",
        "waiting",
    )

    def __init__(self, key: Hashable, lanes: int) -> None:
        self.key = key
        self.holds = 0
        self.by_lane = [0] * lanes
        self.waiting = 0
        self.flows: dict[Flow, int] = {}  # active and confirmed, with the number of their requests from here
        self.figure_s = 0.0
        self.figured_at = 0.0
        self.period = -1
        self.blocked: dict[Bundle[Any], None] = {}  # what waits for this source to hold less

    def figure(self, level: Level, now: float) -> float:
        """Give what counts in the order; never more than the level and its lead."""
        rate = self.holds / min(MOST_DIVIDING, len(self.flows) or 1)
        if self.period == level.period:
            figure = self.figure_s + rate * (now - self.figured_at)
        else:
            figure = level.began_with + rate * (now - level.began_at)
        return min(figure, level.value + level.max_lead_s)

    def bring_up(self, level: Level, now: float) -> None:
        """Settle the figure; to be called before `holds` or `flows` change while somebody waits."""
        self.figure_s = self.figure(level, now)
        self.figured_at = now
        self.period = level.period

    def enter(self, flow: Flow) -> None:
        """Count a request of a confirmed flow as being here."""
        self.flows[flow] = self.flows.get(flow, 0) + 1

    def leave(self, flow: Flow) -> None:
        """Count it as gone."""
        count = self.flows[flow]
        if count == 1:
            del self.flows[flow]
        else:
            self.flows[flow] = count - 1


IDLE_FOR_LONG_S: Final = 600.0  # ten of the minutes in which the log names the top flows


def forget_idle_flows(flows: dict[Hashable, Flow], remembered: int, now: float) -> None:
    """Drop idle flows but the `remembered` that had most worker-seconds, and all that were idle for long."""
    lately = now - IDLE_FOR_LONG_S
    idle = [flow for flow in flows.values() if not flow.holds and not flow.waiting]
    idle.sort(key=lambda flow: flow.spent_s if flow.idle_at >= lately else -1.0, reverse=True)
    for rank, flow in enumerate(idle):
        if rank >= remembered or flow.idle_at < lately:
            del flows[flow.key]


def forget_idle_sources(sources: dict[Hashable, Source], remembered: int, level: Level) -> None:
    """Drop idle sources but the `remembered` that lead most; figures of another period are worth nothing."""
    idle = [source for source in sources.values() if not source.holds and not source.waiting]
    idle.sort(key=lambda source: source.figure_s if source.period == level.period else -1.0, reverse=True)
    for rank, source in enumerate(idle):
        if rank >= remembered or source.period != level.period:
            del sources[source.key]
