"""Sees each request end and each refusal: feeds the histograms, the book of who was refused, and the lines of §11.4.

- A refusal has its line always but where `log.access` is `none`; repeats of one flow and reason are counted instead and told
  once a minute (`repeats.py`). A request that held a worker for `log.slow_seconds` has one; a long poll waits by its nature.
- In report mode what would have been refused is told in the same way, as `would refuse`, and counted by its reason.
- Every `log.top_every_seconds` one line names the flows with most worker-seconds since the last.

What every request costs is `ended`: two appends, a count and three comparisons.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from proxy import clock
from proxy.errors import Reason
from proxy.observability.durations import Durations
from proxy.observability.heavy_hitters import HeavyHitters
from proxy.observability.logs import redact_target
from proxy.observability.repeats import Repeats, Told
from proxy.observability.settings import LogSettings
from proxy.observability.trace import Trace

_NEVER: Final = float("inf")
_SWITCHED: Final = 101
_STATUS_CLASSES: Final = 6  # none, 1xx to 5xx
#: Flows whose refusals are counted by name; of more, the ones with fewest give way.
REFUSED_FLOWS: Final = 1024
TOP_IN_LOG: Final = 10

_log = structlog.get_logger("fairgate.access")
_log_top = structlog.get_logger("fairgate.top")


class Head(Protocol):
    """What is read of a request's head."""

    method: bytes
    target: bytes


class Route(Protocol):
    """What is read of an endpoint."""

    @property
    def route(self) -> int:
        """The route class's number."""

    @property
    def label(self) -> str:
        """The route class's name."""

    @property
    def name(self) -> str:
        """The endpoint's name."""


class Claim(Protocol):
    """What is read of a worker that was asked for."""

    asked_at: float
    started_at: float


class Asking(Protocol):
    """What is read of who asks."""

    key: str
    flow: str


class Request(Protocol):
    """What is read of a request; an `Exchange` is one."""

    @property
    def head(self) -> Head:
        """Its head."""

    @property
    def endpoint(self) -> Route:
        """Where it goes."""

    @property
    def ticket(self) -> Claim | None:
        """The worker it has."""

    @property
    def asker(self) -> Any:
        """Who its peer is."""

    @property
    def principal(self) -> Asking | None:
        """Who asks."""

    request_id: bytes
    status: int
    failure: Reason | None
    started_at: float
    sent_at: float
    times: tuple[float, float] | None


#: One flow and what it had: name, worker-seconds in all since it is known, and what it holds now.
TopFlow = tuple[str, float, int, int]


class Recorder:
    """See the module. `classes` are the names of the route classes."""

    def __init__(self, settings: LogSettings, classes: Sequence[str], now: float) -> None:
        self.durations = Durations(classes)
        self._classes = classes
        #: The homeserver's answers by route class and hundreds of the status; the first of six: none came.
        self._answers = [0] * (_STATUS_CLASSES * len(classes))
        self.refused_flows: HeavyHitters = HeavyHitters(REFUSED_FLOWS)
        self.reported_total = dict.fromkeys(Reason, 0)
        self.trace: Trace | None = None
        self._lost_before = 0  # by traces that are closed
        #: Gives the flows that had most; set by who builds the parts.
        self.top_flows: Callable[[float], Iterable[TopFlow]] = _nobody
        self._waits_s, self._services_s = self.durations.waits_s, self.durations.services_s
        self._repeats: Repeats = Repeats(now)
        self._had_s: dict[str, float] = {}
        self.configure(settings, now)

    def configure(self, settings: LogSettings, now: float) -> None:
        """Take other settings."""
        self._tells = settings.access != "none"
        self._tells_each = settings.access == "all"
        self._slow_s = _NEVER if settings.slow_seconds is None else settings.slow_seconds
        self._top_every_s = settings.top_every_seconds
        self._top_at = _NEVER if self._top_every_s is None else now + self._top_every_s
        self._open_trace(settings.trace)

    def close(self) -> None:
        """Write what is left to be told."""
        for told in self._repeats.due(_NEVER):
            self._tell_repeats(told)
        self._close_trace()

    @property
    def trace_lost_total(self) -> int:
        """How many lines of all traces were lost since start."""
        return self._lost_before + (0 if self.trace is None else self.trace.lost_total)

    def _close_trace(self) -> None:
        if self.trace is not None:
            self._lost_before = self.trace_lost_total
            self.trace.close()
            self.trace = None

    def ended(self, request: Request, now: float) -> None:
        """The homeserver is done with a request that was sent to it, whoever waits for the answer."""
        route = request.endpoint.route
        service_s = now - request.sent_at
        self._answers[_STATUS_CLASSES * route + request.status // 100] += 1
        wait_s = 0.0
        ticket = request.ticket
        if ticket is not None:
            wait_s = ticket.started_at - ticket.asked_at
            self._waits_s[route].append(wait_s)
            if service_s >= self._slow_s:
                self._slow(request, ticket, service_s, now)
        elif request.status == _SWITCHED:
            return  # a tunnel
        if self._tells_each:
            request.times = (wait_s, service_s)
        self._services_s[route].append(service_s)
        if self.trace is not None:
            self.trace.ended(request, now)

    def answers_total(self) -> dict[str, dict[str, int]]:
        """Give how many answers of the homeserver there were, by the names of route class and status class (`2xx`)."""
        return {
            name: {
                f"{hundreds}xx": self._answers[_STATUS_CLASSES * route + hundreds]
                for hundreds in range(1, _STATUS_CLASSES)
            }
            for route, name in enumerate(self._classes)
        }

    def refused(
        self, request: Request | None, reason: Reason, now: float, address: str | None = None
    ) -> None:
        """A request got an answer of ours; None where its head was not even whole, then `address` is its peer's key."""
        flow = address if request is None else _flow_of(request)
        if flow is not None:
            self.refused_flows.add(flow)
        if self._tells and (self._tells_each or self._repeats.may_tell((reason, flow))):
            _log.info("refused", reason=reason.value, status=reason.status, **about(request, now, address))
        if self.trace is not None and request is not None and request.failure is None:
            self.trace.refused(request, reason, now)

    def reported(self, request: Request, reason: Reason) -> None:
        """It would have been refused, were the rule enforced."""
        self.reported_total[reason] += 1
        now = clock.now()
        if self._tells and (
            self._tells_each or self._repeats.may_tell((reason, _flow_of(request), "report"))
        ):
            _log.info("would refuse", reason=reason.value, **about(request, now))

    def turn(self, now: float) -> None:
        """Settle what was appended; write the lines whose time has come."""
        self.durations.settle()
        if self.trace is not None:
            self.trace.write()
        for told in self._repeats.due(now):
            self._tell_repeats(told)
        if now >= self._top_at and self._top_every_s is not None:
            self._top_at = now + self._top_every_s
            self._tell_top(now)

    def _open_trace(self, name: str | None) -> None:
        path = None if name is None else Path(name)
        if self.trace is not None and self.trace.path != path:
            self._close_trace()
        if path is not None and self.trace is None:
            try:
                self.trace = Trace(path)
            except OSError as error:
                _log.error("the trace cannot be opened", path=str(path), error=error.strerror)

    def _slow(self, request: Request, ticket: Claim, service_s: float, now: float) -> None:
        _log.info(
            "slow",
            status=request.status,
            service_seconds=round(service_s, 3),
            wait_seconds=round(ticket.started_at - ticket.asked_at, 3),
            **about(request, now),
        )

    def _tell_repeats(self, told: Told) -> None:
        if told.key is None:
            _log.info("refused, repeated", times=told.times, of="others")
            return
        reason, flow, *report = told.key
        event = "would refuse, repeated" if report else "refused, repeated"
        _log.info(event, reason=reason.value, flow=flow, times=told.times)

    def _tell_top(self, now: float) -> None:
        before, self._had_s = self._had_s, {}
        grown = []
        for flow, had_s, holds, waiting in self.top_flows(now):
            self._had_s[flow] = had_s
            seconds = had_s - before.get(flow, 0.0)
            grown.append((max(seconds, 0.0), flow, holds, waiting))
        grown.sort(reverse=True)
        top = [
            {"flow": flow, "worker_seconds": round(seconds, 2), "holds": holds, "waiting": waiting}
            for seconds, flow, holds, waiting in grown[:TOP_IN_LOG]
            if seconds >= 0.005 or waiting
        ]
        if top:
            _log_top.info("top flows", flows=top)


def _nobody(now: float) -> Iterable[TopFlow]:  # noqa: ARG001 - the port's shape
    return ()


def _flow_of(request: Request | None) -> str | None:
    if request is None:
        return None
    if request.principal is not None:
        return request.principal.flow
    key: str = request.asker.key
    return key


def about(request: Request | None, now: float, address: str | None = None) -> dict[str, object]:
    """Give what every line about a request says; account and address are here and in `/v1/flows` only.

    Without a request, as its head was not whole, that is its peer's `address`.
    """
    if request is None:
        return {} if address is None else {"flow": address, "address": address}
    return {
        "method": request.head.method.decode("ascii"),
        "target": redact_target(request.head.target),
        "route": request.endpoint.label,
        "flow": _flow_of(request),
        "address": request.asker.key,
        "seconds": round(now - request.started_at, 4),
        "request_id": request.request_id.decode("ascii"),
    }
