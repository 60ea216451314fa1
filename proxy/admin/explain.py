"""What would happen to a request, and why: its class, its lane, its budgets, and the rules that look at it. Pure.

Nothing is asked of the homeserver and nobody's present use is known: `explain` reads the same table, profile and settings as a
running proxy. An account that is given counts as confirmed.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from proxy.identity.principal import Exemptions
from proxy.identity.settings import ExemptSettings
from proxy.matrix.endpoint import Endpoint, Lane, Poll, RouteClass
from proxy.matrix.profiles import Figures, LaneFigures, figures
from proxy.matrix.routes import find_endpoint, sync_timeout_s
from proxy.policies.background_gate import PER_FLOW_IN_LINE
from proxy.policies.background_match import BackgroundMatch, timeout_s
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.outcomes import Outcome, is_reported
from proxy.policies.settings import LanesSettings, PusherSettings, SyncSettings, given_figures
from proxy.policies.worker_pool import flow_cap
from proxy.spool.settings import BodiesSettings

_WHY_BACKGROUND = {
    "declared": "it says Fairgate-Class: background",
    "accounts": "background.match.accounts names its account",
    "user_agents": "background.match.user_agents names its User-Agent",
    "classes": "background.match.classes names its class",
}
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_WAIT_SLACK_S = 90  # an answer to a long poll may come this much after its timeout (§5.4)


class Asked(NamedTuple):
    """The request: method, target in origin-form, a confirmed account or None, fields with names in lower case."""

    method: str
    target: str
    account: str | None = None
    fields: Mapping[str, str] = {}


class Rules(NamedTuple):
    """The settings that `explain` reads, and the profile they hold for."""

    profile: str
    lanes: LanesSettings = LanesSettings()
    sync: SyncSettings = SyncSettings()
    background: BackgroundSettings = BackgroundSettings()
    pushers: PusherSettings = PusherSettings()
    bodies: BodiesSettings = BodiesSettings()
    exempt: ExemptSettings = ExemptSettings()
    mode: str = "enforce"
    from_environment: frozenset[str] = frozenset()


class Finding(NamedTuple):
    """One thing that holds for the request: a topic of one or two words, a sentence, and its reason."""

    topic: str
    says: str
    why: str


def explain(asked: Asked, rules: Rules) -> list[Finding]:
    """Give what holds for a request, in the order in which it is looked at."""
    endpoint = find_endpoint(asked.method.encode(), asked.target.encode())
    known = figures(rules.profile, given_figures(rules.lanes, rules.sync, rules.from_environment))
    findings = [
        Finding(
            "class",
            endpoint.label,
            f"{asked.method} on this path is `{endpoint.name}` in the table of routes",
        ),
        _flow(asked.account),
    ]
    exempt = _is_exempt(asked.account, rules.exempt)
    if exempt:
        findings.append(
            Finding("exempt", "no limit by account or address holds", "clients.exempt names its account")
        )
    if endpoint.poll is not Poll.NONE:
        findings += _wait(asked, known, exempt=exempt, mode=rules.sync.mode or rules.mode)
    findings += _body(asked, endpoint, rules.bodies)
    findings += _background(asked, endpoint, rules)
    if endpoint.route is not RouteClass.SYNC or endpoint.poll is Poll.NONE or endpoint.lane >= 0:
        findings += _lane(endpoint, known, rules, exempt=exempt)
    if endpoint.sets_pusher:
        says = (
            f"at most {rules.pushers.max_per_user} pushers of an account; updates and deletions always pass"
        )
        findings.append(Finding("pushers", says, "pushers.max_per_user says so"))
    findings += _end(asked, endpoint, known, rules)
    return findings


def render(findings: Sequence[Finding]) -> str:
    """Give the findings as lines for a terminal: topic, sentence, and the reason below it."""
    width = max(len(finding.topic) for finding in findings)
    lines = []
    for topic, says, why in findings:
        lines += [f"{topic:<{width}}  {says}", f"{'':<{width}}    because {why}" if why else ""]
    return "\n".join(line for line in lines if line)


def fields_of(headers: Sequence[str]) -> dict[str, str]:
    """Read `Name: value` as often as given.

    Raises:
        ValueError: with a sentence about the one that is none.
    """
    fields = {}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"{header!r} is not a header; write it as 'Name: value'")
        fields[name.strip().lower()] = value.strip()
    return fields


def _flow(account: str | None) -> Finding:
    if account is None:
        return Finding("charged to", "the client's address", "no confirmed account is known")
    return Finding("charged to", account, "the homeserver confirms the token's account")


def _is_exempt(account: str | None, exempt: ExemptSettings) -> bool:
    if account is None:
        return False
    exemptions = Exemptions(accounts=exempt.accounts)
    return exemptions.cover(account, None, guest=False, appservice=False)


def _body(asked: Asked, endpoint: Endpoint, bodies: BodiesSettings) -> list[Finding]:
    if asked.method not in _METHODS_WITH_BODY:
        return []
    findings = []
    if not endpoint.is_upload:
        says = f"at most {_mebibytes(bodies.max_json_bytes)}"
        findings.append(Finding("body", says, "bodies.max_json_bytes says so"))
    if endpoint.takes_token and asked.account is None:
        says = (
            f"refused with 401 above {_mebibytes(bodies.confirm_above_bytes)}, unless the token is confirmed"
        )
        findings.append(Finding("large body", says, "a token is read here, and none is confirmed"))
    return findings


def _mebibytes(count: int) -> str:
    return f"{count / 1_048_576:.4g} MiB"


def _wait(asked: Asked, known: Figures, *, exempt: bool, mode: str) -> list[Finding]:
    total = known.sync_workers
    if exempt:
        says = f"one of {total} waits in all; those of accounts and devices do not hold"
    else:
        says = (
            f"one of {known.waits_per_device} waits of its device, {known.waits_per_account} of its account, {total} in all; "
            f"above {3 * total // 4} in all only an account's first"
        )
    findings = [Finding("wait", says, f"it is a long poll{_in_report(mode)}; {_origins(known, 'sync.')}")]
    given_s = sync_timeout_s(asked.target.encode())
    if given_s is not None:
        findings.append(Finding("timeout", f"{given_s:g} s", "its query says so; longer ones are lowered"))
    return findings


def _background(asked: Asked, endpoint: Endpoint, rules: Rules) -> list[Finding]:
    settings = rules.background
    declared = asked.fields.get("fairgate-class", "").strip().lower() == "background"
    agent = asked.fields.get("user-agent")
    agent_bytes = None if agent is None else agent.encode()
    why = BackgroundMatch(settings.match).why(asked.account, agent_bytes, endpoint.route, declared=declared)
    if why is None:
        return [Finding("background", "no", "it does not say so, and background.match names nothing of it")]
    mode = _in_report(settings.mode or rules.mode)
    if endpoint.lane < 0:
        says = "yes: it waits while the gate does not admit, and takes no place of it"
        return [Finding("background", says, _WHY_BACKGROUND[why] + mode)]
    late_s = timeout_s(settings.timeout_seconds, endpoint.name)
    says = (
        f"yes: one of at most {settings.max_limit} at a time, {max(1, settings.max_limit // 2)} of its flow; "
        f"{PER_FLOW_IN_LINE} of a flow wait, {settings.max_wait_seconds:g} s at most; late after {late_s:g} s"
    )
    return [Finding("background", says, _WHY_BACKGROUND[why] + mode)]


def _lane(endpoint: Endpoint, known: Figures, rules: Rules, *, exempt: bool) -> list[Finding]:
    lane = known.lanes[endpoint.lane]
    share = "all of them for one flow, which is exempt" if exempt else f"{_most(lane, known)} for one flow"
    says = (
        f"{lane.name}: {lane.workers} workers{' of the pool' if lane.in_pool else ''}, {share}; "
        f"{lane.line} wait, {lane.max_wait_s:g} s at most"
    )
    why = f"requests of class {endpoint.label} go there{_in_report(rules.lanes.mode or rules.mode)}"
    findings = [Finding("lane", says, f"{why}; {_origins(known, f'lanes.{lane.name}.')}")]
    if endpoint.route is RouteClass.HISTORY and not exempt:
        says = f"{rules.lanes.history_per_account} at a time of one account; the next waits, and nothing else for it"
        findings.append(Finding("history", says, "lanes.history_per_account says so"))
    return findings


def _end(asked: Asked, endpoint: Endpoint, known: Figures, rules: Rules) -> list[Finding]:
    waits = endpoint.route is RouteClass.SYNC and endpoint.lane is not Lane.REQUESTS
    if waits:
        says = f"its timeout + {_WAIT_SLACK_S} s, 210 s where it is unknown"
    else:
        route = RouteClass.REQUESTS if endpoint.route is RouteClass.SYNC else endpoint.route
        says = f"{known.deadlines_s[route]:g} s"
    findings = [
        Finding(
            "deadline", says, "it is a long poll" if waits else f"that is the time of class {endpoint.label}"
        )
    ]
    if known.ends_with_client(endpoint, asked.method.encode()):
        says, why = (
            "the request is ended at the homeserver",
            f"{rules.profile} stops such work with its client",
        )
    else:
        held = f"at most {rules.lanes.max_hold_seconds:g} s"
        says, why = (
            f"its worker is held until the homeserver is done, {held}",
            "the homeserver goes on with it",
        )
        if waits:
            says = "it counts as a ghost until it ends or its timeout + 5 s has passed"
    findings.append(Finding("client leaves", says, why))
    heard = is_reported(Outcome.SERVER_ERROR, endpoint.route, upload=endpoint.is_upload)
    if not heard:
        findings.append(
            Finding("gate", "its failures are not heard", "such requests fail for other reasons than load")
        )
    return findings


def _most(lane: LaneFigures, known: Figures) -> int:
    """Give what one flow may have at most of a lane: its share is of the pool's workers where they are shared."""
    pool = known.lanes[Lane.REQUESTS] if lane.in_pool else lane
    return min(lane.workers, flow_cap(pool.workers, lane.share))


def _in_report(mode: str) -> str:
    return ", only counted: mode is report" if mode == "report" else ""


def _origins(known: Figures, prefix: str) -> str:
    """Tell where the figures under a key come from: `profile` alone, or each that was set."""
    set_by = [f"{key} ({figure.origin})" for key, figure in known.given.items() if key.startswith(prefix)
              and figure.origin in ("file", "environment")]  # fmt: skip
    return f"set: {', '.join(set_by)}" if set_by else f"figures of profile {known.profile}"
