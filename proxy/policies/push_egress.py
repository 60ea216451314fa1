"""Which hosts are push gateways, and what a delivery teaches about one (behaviour.md §7.2, ADR 0016). Pure.

`lesson_of` is the one place where it is settled what reached a gateway, what did not, and what tells nothing:

    reached   any HTTP answer, whatever its status
    failed    the name does not resolve, no connection, no TLS, no answer in time
    nothing   what Fairgate declined, what the homeserver dropped early, and an end without an answer right after the
              request: like a 5xx that is said about one notification, and one user could cause it for all

For a host that is a federation peer only the connect teaches: federation requests may last longer than any delivery.
Learned hosts are bounded; of the gateways the one least recently learned or delivered to is forgotten first.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final

from proxy.mechanisms.origin_names import normal_host, split_authority, written

NOTIFY_PATH: Final = b"/_matrix/push/v1/notify"
MAX_KNOWN: Final = 4096
_URL = re.compile(r"(https?)://([^/?#\\\s]+)(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_PORTS: Final = {"http": 80, "https": 443}
#: What homeservers answer with a 2xx only to a signed request; `version`, `openid` and `/_matrix/key` are for anybody.
_SIGNED = re.compile(
    rb"/_matrix/federation/v[12]/(?:send|send_join|make_join|send_leave|make_leave|send_knock|make_knock|invite|backfill"
    rb"|event|event_auth|state|state_ids|get_missing_events|user|query|hierarchy|exchange_third_party_invite)/[^?]"
)
_SCHEME = re.compile(rb"x-matrix[ \t]+", re.IGNORECASE)
_ORIGIN = re.compile(rb'(?:^|,)[ \t]*origin[ \t]*=[ \t]*(?:"([^"\\]*)"|([^",\s]+))', re.IGNORECASE)


class DeliveryEnd(IntEnum):
    """How a delivery ended; CONNECTED is a stage on the way."""

    ANSWERED = 0
    CONNECTED = 1
    UNRESOLVED = 2
    UNCONNECTED = 3
    TLS_FAILED = 4
    STALLED = 5
    CLOSED = 6
    ABANDONED = 7
    DECLINED = 8


class Lesson(IntEnum):
    """What it teaches about the gateway."""

    NOTHING = 0
    REACHED = 1
    FAILED = 2


_NOTHING, _REACHED, _FAILED = Lesson
_OF_GATEWAY: Final = {
    DeliveryEnd.ANSWERED: _REACHED,
    DeliveryEnd.UNRESOLVED: _FAILED,
    DeliveryEnd.UNCONNECTED: _FAILED,
    DeliveryEnd.TLS_FAILED: _FAILED,
    DeliveryEnd.STALLED: _FAILED,
}
_OF_PEER: Final = {
    DeliveryEnd.ANSWERED: _REACHED,
    DeliveryEnd.CONNECTED: _REACHED,
    DeliveryEnd.UNRESOLVED: _FAILED,
    DeliveryEnd.UNCONNECTED: _FAILED,
}


def lesson_of(end: DeliveryEnd, *, peer: bool) -> Lesson:
    """Tell what a delivery's end teaches; `peer` says that the host is a federation peer."""
    return (_OF_PEER if peer else _OF_GATEWAY).get(end, _NOTHING)


def gateway_key(host: str, port: int, *, tls: bool) -> str:
    """Name a gateway's circuit. One for TLS, one without: else plain requests to a TLS port would close it for all."""
    return f"{'https' if tls else 'http'}://{written(host, port)}"


def is_delivery(method: bytes, target: bytes) -> bool:
    """Tell whether a plain request is a push delivery; nothing else is posted there."""
    return method == b"POST" and target.partition(b"?")[0] == NOTIFY_PATH


def gateway_of(body: bytes) -> tuple[str, int] | None:
    """Read host and port of the gateway in the body of `POST pushers/set`; None where it names none, or removes one."""
    try:
        pusher: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pusher, dict) or pusher.get("kind") is None:
        return None
    data = pusher.get("data")
    url = data.get("url") if isinstance(data, dict) else None
    return origin_of_url(url) if isinstance(url, str) else None


def origin_of_url(url: str) -> tuple[str, int] | None:
    """Give normal host and port of an http or https URL."""
    parts = _URL.fullmatch(url.strip())
    if parts is None:
        return None
    return split_authority(_in_ascii(parts[2]), _PORTS[parts[1].lower()])


def _in_ascii(authority: str) -> str:
    """Write a name of other letters as DNS knows it."""
    if authority.isascii():
        return authority
    host, separator, port = authority.partition(":")
    try:
        return host.encode("idna").decode("ascii") + separator + port
    except UnicodeError:
        return authority


def peer_of(target: bytes, authorization: bytes) -> str | None:
    """Give the host of the server that signed a federation request; meaningful once the homeserver answered with a 2xx.

    None for requests that homeservers answer unsigned, and for a header that names two origins or none.
    """
    scheme = _SCHEME.match(authorization)
    if scheme is None or not _SIGNED.match(target):
        return None
    origins = _ORIGIN.findall(authorization[scheme.end() :])
    if len(origins) != 1:
        return None
    name = (origins[0][0] or origins[0][1]).decode("ascii", "replace")
    host = re.sub(r"(?<=[^:]):[0-9]{1,5}$", "", name) if not name.endswith("]") else name
    return normal_host(host)


class KnownHosts:
    """Gateways learned, gateways named by the operator (`host`, for every port, or `host:port`), federation peers."""

    def __init__(self, named: Iterable[str] = (), limit: int = MAX_KNOWN) -> None:
        self._limit = limit
        self._named: frozenset[str] = frozenset(named)
        self._gateways: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._peers: OrderedDict[str, None] = OrderedDict()

    def name(self, named: Iterable[str]) -> None:
        """Take the operator's list anew."""
        self._named = frozenset(named)

    def learn(self, host: str, port: int) -> bool:
        """Take a gateway in; tell whether it is new. `host` is normal."""
        return _touch(self._gateways, (host, port), self._limit)

    def learn_peer(self, host: str) -> bool:
        """Take a federation peer in; tell whether it is new. `host` is normal."""
        return _touch(self._peers, host, self._limit)

    def is_gateway(self, host: str, port: int) -> bool:
        """Tell whether deliveries go there; that keeps a learned one known."""
        if (host, port) in self._gateways:
            self._gateways.move_to_end((host, port))
            return True
        return host in self._named or written(host, port) in self._named

    def is_peer(self, host: str) -> bool:
        """Tell whether a host is a federation peer's name, or below it: servers are often hosted at `matrix.<name>`."""
        while host:
            if host in self._peers:
                return True
            host = host.partition(".")[2]
        return False

    @property
    def gateways(self) -> list[tuple[str, int]]:
        """The learned ones, the first to be forgotten first."""
        return list(self._gateways)

    @property
    def peers(self) -> list[str]:
        """The peers, the first to be forgotten first."""
        return list(self._peers)


def _touch(known: "OrderedDict[Any, None]", key: object, limit: int) -> bool:
    new = key not in known
    known[key] = None
    known.move_to_end(key)
    if len(known) > limit:
        known.popitem(last=False)
    return new
