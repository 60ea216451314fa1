"""A request as a log tells it, from Fairgate's own trace or an access log. Pure; who reads the file is the caller.

What each tells:
- Fairgate's trace: everything but the target.
- Synapse's access log: account, address, target, duration; logged when the request ended.
- HAProxy (`option httplog`): address, target, and its timers without the queue's; logged with when it came.
- nginx or Apache, combined: address, target, whole seconds; logged when it ended. A duration only where `$request_time` is the
  line's last field, or `rt=`; `unknown_s` stands for it otherwise.
In access logs but Synapse's nobody has an account: flows are addresses.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from proxy.matrix.endpoint import Lane, Poll, RouteClass
from proxy.matrix.routes import find_endpoint
from proxy.matrix.sync_request import sync_timeout_s


class Recorded(NamedTuple):
    """One request. `at` in seconds since the epoch; `lane` by `Lane`, NONE for a long poll that only waits.

    `account` None: nobody confirmed. `poll_s`: a long poll's timeout, UNKNOWN_S where it has none told; None: no long poll.
    `service_s` None: not told, or refused. `was_refused`: the reason if Fairgate refused it then.
    """

    at: float
    account: str | None
    device: str | None
    address: str
    label: str
    lane: int
    history: bool
    poll_s: float | None
    service_s: float | None
    appservice: bool = False
    was_refused: str | None = None


UNKNOWN_S: Final = 30.0  # a long poll's timeout where the log has none
_HISTORY: Final = RouteClass.HISTORY
_WHOLE: Final = 1 << 32
_LANES: Final = {lane.name.lower(): int(lane) for lane in Lane if lane is not Lane.NONE}
_REQUEST = r'"(?P<method>[A-Za-z]{1,32}) (?P<target>/\S*) HTTP/[0-9.]+"'
_SYNAPSE: Final = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3}) .*? - (?P<address>[0-9a-fA-F.:]+|unix[^ ]*|[^ ]*) - \S+ - "
    r"\{(?P<account>[^}]*)\} Processed request: (?P<seconds>[0-9.]+)sec/(?P<sending>-?[0-9.]+)sec .*?"
    + _REQUEST
)
_HAPROXY: Final = re.compile(
    r"(?P<address>[0-9a-fA-F.:]+):\d+ \[(?P<at>\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d)\.(?P<ms>\d{3})\] \S+ \S+ "
    r"(?P<tr>-?\d+)/(?P<tw>-?\d+)/(?P<tc>-?\d+)/(?P<answer>-?\d+)/\+?(?P<ta>\d+) .*?" + _REQUEST
)
_COMBINED: Final = re.compile(
    r"(?P<address>\S+) \S+ \S+ \[(?P<at>\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d) (?P<zone>[+-]\d{4})\] " + _REQUEST +
    r' \d{3} \S+(?: "[^"]*" "[^"]*")?(?:.*?\b(?:rt=|request_time=)?(?P<seconds>\d+\.\d{1,6}))?\s*$'
)  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}


class Format(NamedTuple):
    """One kind of log. `ordered_by_end`: lines come in the order in which requests ended."""

    name: str
    parse: Callable[[str], Recorded | None]
    ordered_by_end: bool


def find_format(lines: list[str]) -> Format | None:
    """Give the format most of these lines are in; None if hardly any is in one."""
    best, most = None, 0
    for one in FORMATS:
        read = sum(one.parse(line) is not None for line in lines)
        if read > most:
            best, most = one, read
    return best if most * 2 >= len(lines) else None


def parse_trace(line: str) -> Recorded | None:
    """Read a line of `log.trace`; None if it is none."""
    if not line.startswith('{"v":1,'):
        return None
    try:
        told = json.loads(line)
        flow, lane = told["flow"], told["lane"]
        polls = "poll_s" in told
        return Recorded(
            at=float(told["at"]),
            account=flow.removeprefix("appservice ")
            if told.get("confirmed") and flow != told["address"]
            else None,
            device=told.get("device"),
            address=told["address"],
            label=told["class"],
            lane=-1 if lane is None else _LANES[lane],
            history=told["class"] == "history",
            poll_s=(told["poll_s"] if told["poll_s"] is not None else UNKNOWN_S) if polls else None,
            service_s=told.get("service_s"),
            appservice=flow.startswith("appservice "),
            was_refused=told.get("refused"),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def parse_synapse(line: str) -> Recorded | None:
    """Read a line of Synapse's access log, in UTC; None if it is none."""
    found = _SYNAPSE.match(line)
    if found is None:
        return None
    seconds = float(found["seconds"])
    ended_at = _second_of_iso(found["at"]) + int(found["ms"]) / 1000
    account = found["account"] if found["account"].startswith("@") else None
    return _recorded(ended_at - seconds, account, found["address"], found["method"], found["target"], seconds)


def parse_haproxy(line: str) -> Recorded | None:
    """Read a line of HAProxy's HTTP log, with or without syslog's part before it; None if it is none."""
    found = _HAPROXY.search(line)
    if found is None:
        return None
    seconds = max(0, int(found["ta"]) - max(0, int(found["tr"])) - max(0, int(found["tw"]))) / 1000
    at = _second_of(found["at"], "+0000") + int(found["ms"]) / 1000
    return _recorded(at, None, found["address"], found["method"], found["target"], seconds)


def parse_combined(line: str) -> Recorded | None:
    """Read a line of nginx' or Apache's combined log; None if it is none."""
    found = _COMBINED.match(line)
    if found is None:
        return None
    seconds = None if found["seconds"] is None else float(found["seconds"])
    # Somewhere in the second it names: else all of a second would come at once.
    ended_at = _second_of(found["at"], found["zone"]) + crc32(line.encode()) / _WHOLE
    return _recorded(
        ended_at - (seconds or 0.0), None, found["address"], found["method"], found["target"], seconds
    )


def _recorded(
    at: float, account: str | None, address: str, method: str, target: str, service_s: float | None
) -> Recorded:
    raw = target.encode()
    endpoint = find_endpoint(method.encode(), raw)
    poll_s = None
    if endpoint.poll is not Poll.NONE:
        told_s = sync_timeout_s(raw)
        poll_s = UNKNOWN_S if told_s is None else told_s
    return Recorded(
        at,
        account,
        None,
        address,
        endpoint.label,
        endpoint.lane,
        endpoint.route is _HISTORY,
        poll_s,
        service_s,
    )


@lru_cache(4096)
def _second_of(text: str, zone: str) -> float:
    """Read `30/Nov/2026:10:00:00` and `+0100`; lines of one second are many."""
    day, month, rest = text.split("/", 2)
    year, hour, minute, second = rest.split(":")
    offset = timedelta(hours=int(zone[:3]), minutes=int(zone[0] + zone[3:]))
    when = datetime(
        int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=timezone(offset)
    )
    return (when - _EPOCH).total_seconds()


@lru_cache(4096)
def _second_of_iso(text: str) -> float:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH).total_seconds()


FORMATS: Final = (
    Format("trace", parse_trace, ordered_by_end=True),
    Format("synapse", parse_synapse, ordered_by_end=True),
    Format("haproxy", parse_haproxy, ordered_by_end=False),
    Format("combined", parse_combined, ordered_by_end=True),
)
