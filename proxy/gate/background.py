"""Background requests wait here for a place beside the others; how requests end is told to the gate (behaviour.md §6)."""

import re
from collections.abc import Sequence
from typing import Final, cast

import structlog

from proxy.errors import Reason
from proxy.gate.steps import Steps, jittered
from proxy.identity.principal import Principal
from proxy.matrix.endpoint import Lane
from proxy.policies.background_gate import BackgroundGate
from proxy.policies.background_match import BackgroundMatch, timeout_s
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import GatePermit, StartedRefusing, Verdict
from proxy.policies.outcomes import Outcome, is_reported, of_answer, of_reason
from proxy.upstream.exchange import IN_LINE, Exchange

_ADMIT, _PARK, _REFUSE = Verdict
_DROPPED, _TIMEOUT = Outcome.DROPPED, Outcome.TIMEOUT
_NO_LANE = Lane.NONE
_USER_AGENT: Final = re.compile(rb"\r\nuser-agent:[ \t]*([^\r]*)", re.IGNORECASE)

_log = structlog.get_logger("fairgate.background")


class BackgroundWork:
    """The gate before one homeserver, `homeserver` in its log lines. `enforces` False: nobody waits at it (§11.1)."""

    steps: Steps

    def __init__(
        self,
        gate: "BackgroundGate[Exchange]",
        settings: BackgroundSettings,
        *,
        homeserver: str,
        enforces: bool,
    ) -> None:
        self.gate = gate
        self.homeserver = homeserver
        self.enforces = enforces
        self._match = BackgroundMatch(settings.match)
        self._settings = settings

    def reconfigure(self, settings: BackgroundSettings) -> None:
        """Take other settings; who has a place keeps it."""
        self._settings = settings
        self._match = BackgroundMatch(settings.match)
        self.gate.configure(settings)

    def is_background(self, exchange: Exchange) -> bool:
        """Tell whether nobody waits for a request: it says so itself, or the operator names it."""
        fields = exchange.head.fields
        if not self._match.configured:
            return fields.background
        agent = _USER_AGENT.search(exchange.wire_head)
        principal = cast(Principal, exchange.principal)
        account = principal.account if principal.confirmed else None
        return (
            self._match.why(
                account,
                None if agent is None else agent[1].rstrip(b" \t"),
                exchange.endpoint.route,
                declared=fields.background,
            )
            is not None
        )

    def take(self, exchange: Exchange, now: float) -> bool:
        """Tell whether a background request may go on now; else it stands in line, or is refused."""
        principal = cast(Principal, exchange.principal)
        exchange.given().background = permit = GatePermit(
            principal.flow,
            exchange,
            timeout_s(self._settings.timeout_seconds, exchange.endpoint.name),
            long_poll=exchange.endpoint.lane is _NO_LANE,
            exempt=principal.exempt,
        )
        if not self.enforces:
            if self.gate.take(permit, now) is _REFUSE:
                self.steps.reported(exchange, Reason.BACKGROUND_LINE)
            return True
        verdict = self.gate.ask(permit, now)
        if verdict is _ADMIT:
            return True
        if verdict is _PARK:
            exchange.stage = IN_LINE
        else:
            self._refuse(permit, Reason.BACKGROUND_LINE, now)
        return False

    def sent(self, exchange: Exchange, now: float) -> None:
        """It goes to the homeserver: its time counts from now."""
        permit = _permit_of(exchange)
        if permit is not None:
            self.gate.sent(permit, now)

    def held(self, exchange: Exchange, now: float) -> None:
        """The homeserver works on without us: our deadline passed, or the client is gone."""
        permit = _permit_of(exchange)
        late = exchange.failure is Reason.UPSTREAM_TIMEOUT
        if permit is None:
            if late:
                self._report(exchange, _TIMEOUT, now)
        elif late:
            self._grant(self.gate.hold(permit, now), now)
        else:
            self._grant(self.gate.left(permit, now), now)

    def ended(self, exchange: Exchange, now: float, *, abandoned: bool) -> None:
        """The homeserver is done with it, or never got it. `abandoned`: nobody waited for its end."""
        permit = _permit_taken_from(exchange)
        if permit is None:
            if not abandoned and (exchange.status >= 429 or exchange.failure is not None):
                self._report(exchange, self._outcome(exchange, 0.0, now), now)
            return
        outcome = _DROPPED if abandoned else self._outcome(exchange, self.gate.fast_within_s(permit), now)
        self._grant(self.gate.finish(permit, outcome, now), now)

    def withdraw(self, exchange: Exchange, now: float) -> None:
        """Its client left, or it was refused, before the homeserver got it."""
        permit = _permit_taken_from(exchange)
        if permit is not None:
            self._grant(self.gate.finish(permit, _DROPPED, now), now)

    def turn(self, now: float) -> None:
        """End waits and holds that lasted long enough, and tell of what happened."""
        if self.gate.next_deadline() <= now:
            expired = self.gate.expired(now)
            for permit in expired.refused:
                self._refuse(permit, Reason.BACKGROUND_WAIT, now)
            self._grant(expired.granted, now)
        for event in self.gate.take_events():
            if isinstance(event, StartedRefusing):
                _log.warning(
                    "background work is refused",
                    homeserver=self.homeserver,
                    outcome=event.outcome.name.lower(),
                )
            else:
                _log.info(
                    "background work is admitted again",
                    homeserver=self.homeserver,
                    after_seconds=round(event.refused_for_s, 1),
                )

    def _outcome(self, exchange: Exchange, fast_within_s: float, now: float) -> Outcome:
        if exchange.failure is not None:
            return of_reason(exchange.failure)
        if not exchange.status:
            return _DROPPED
        return of_answer(exchange.status, now - exchange.sent_at, fast_within_s)

    def _report(self, exchange: Exchange, outcome: Outcome, now: float) -> None:
        endpoint = exchange.endpoint
        if is_reported(outcome, endpoint.route, upload=endpoint.is_upload):
            flow = cast(Principal, exchange.principal).flow
            self.gate.report_interactive(flow, outcome, exchange.sent_at, now)

    def _grant(self, permits: "Sequence[GatePermit[Exchange]]", now: float) -> None:
        for permit in permits:
            self.steps.may_work(permit.owner, now)

    def _refuse(self, permit: "GatePermit[Exchange]", reason: Reason, now: float) -> None:
        self.steps.refuse(permit.owner, reason, jittered(self.gate.retry_after_s(now)))


def _permit_of(exchange: Exchange) -> "GatePermit[Exchange] | None":
    permits = exchange.permits
    return None if permits is None else permits.background


def _permit_taken_from(exchange: Exchange) -> "GatePermit[Exchange] | None":
    permit = _permit_of(exchange)
    if permit is not None and exchange.permits is not None:
        exchange.permits.background = None
    return permit
