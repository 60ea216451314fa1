"""Which connections are let in, which are turned away, and which give way to others (behaviour.md §1.5, §1.6).

The rule is `http1.crowd`'s; here it is told of every connection, and what it decides is done. A crowd is made when more than
three quarters of `connections.max` are taken, in one pass over all connections, and let go below five eighths.
"""

from typing import TYPE_CHECKING, Final, cast

import structlog

from proxy import clock
from proxy.downstream.settings import ConnectionSettings
from proxy.http1.crowd import ADMIT, FULL, PER_ADDRESS, Crowd, Place, crowded_from, is_calm
from proxy.http1.deadlines import DeadlineSweep
from proxy.http1.life_cycle import WITHOUT_HEAD, State
from proxy.identity.client_key import Client, ClientKeys

if TYPE_CHECKING:
    from proxy.downstream.connection import ClientConnection

_CLOSED: Final = State.CLOSED
#: By state: an enumeration's member is slow to look up in a set.
_WITHOUT_HEAD: Final = tuple(state in WITHOUT_HEAD for state in State)
_WARN_EVERY_S: Final = 60.0

_log = structlog.get_logger("fairgate")


class TurnedAway:
    """Why connections were turned away, counted; each reason is a name for metrics and logs.

    `full`: nobody could give way. `per_address`: its address has enough. `evicted`: it gave way. `untrusted_proxy`: its peer
    may not send a PROXY header. `proxy_header`: it sent something else. `hello`, `handshake`: TLS did not come about.
    `handshake_place`: others waited for its place in the handshakes.
    """

    NAMES: Final = (
        "full",
        "per_address",
        "evicted",
        "untrusted_proxy",
        "proxy_header",
        "hello",
        "handshake",
        "handshake_place",
    )

    __slots__ = ("_warned_at", "totals")

    def __init__(self) -> None:
        self.totals = dict.fromkeys(self.NAMES, 0)
        self._warned_at = dict.fromkeys(self.NAMES, -_WARN_EVERY_S)

    def count(self, name: str) -> None:
        """Count one."""
        self.totals[name] += 1

    def warn(self, name: str, text: str, **about: object) -> None:
        """Count one, and say so once a minute: it is likely a mistake in somebody's settings."""
        self.totals[name] += 1
        now = clock.now()
        if now - self._warned_at[name] >= _WARN_EVERY_S:
            self._warned_at[name] = now
            _log.warning(text, total=self.totals[name], **about)


class Admission:
    """See the module. `connections` are those that were let in."""

    _client_keys: ClientKeys

    def __init__(self, connections: "DeadlineSweep[ClientConnection]") -> None:
        self.connections = connections
        self.accepted_total = 0
        self.turned_away = TurnedAway()
        self._max = self._crowded_from = 0
        self._per_address = 0
        self._waits_s = [0.0] * len(State)
        self._crowd: Crowd[ClientConnection] | None = None

    @property
    def crowded(self) -> bool:
        """Whether the caps by address bind."""
        return self._crowd is not None

    def configure(self, settings: ConnectionSettings, client_keys: ClientKeys, max_connections: int) -> None:
        """Take settings, at start and whenever they change; who is connected is told apart by address anew."""
        self._client_keys = client_keys
        self._max = max_connections
        self._crowded_from = crowded_from(max_connections)
        self._per_address = settings.per_address
        #: How long a connection may be in each state: from its deadline follows since when it waits.
        waits_s = self._waits_s
        waits_s[State.HELLO] = settings.tls_hello_seconds
        waits_s[State.HANDSHAKE] = settings.tls_handshake_seconds
        waits_s[State.FIRST_BYTE] = settings.first_byte_seconds
        waits_s[State.HEAD] = settings.head_seconds
        waits_s[State.PARKED] = settings.keep_alive_idle_seconds
        self._end_crowd()
        for connection in self.connections:
            asker = cast(Client, connection.asker)
            connection.asker = self._client_keys.resolve(asker.peer)

    # For connections.

    def opened(self, connection: "ClientConnection") -> None:
        """Take a connection in, or close it at once."""
        self.accepted_total += 1
        asker = connection.asker
        if asker is None:
            peer = connection.transport.get_extra_info("peername")
            if not isinstance(peer, tuple):
                # A client that reset before it was accepted has no address any more, and may not borrow another's.
                connection.turn_away()
                return
            asker = connection.asker = self._client_keys.resolve(peer[0])
        if connection.state is State.PROXY_HEADER and not asker.trusted:
            self.turned_away.warn(
                "untrusted_proxy",
                "a peer that is not in clients.trusted_proxies connects where a PROXY header is expected",
                peer=asker.key,
            )
            connection.turn_away()
        elif self._may_enter(connection, asker):
            self.connections.add(connection)
        else:
            connection.turn_away()

    def named(self, connection: "ClientConnection", source: str) -> None:
        """A proxy said who its client is: the connection is that client's from now on, and may be one too many."""
        asker = connection.asker = self._client_keys.resolve(source)
        key = _capped_key(asker)
        if self._crowd is None or key is None:
            return
        if self._crowd.verdict(key, len(self.connections) - 1) is PER_ADDRESS:
            self.turned_away.count("per_address")
            connection.turn_away()
        else:
            connection.place = self._crowd.enter(key, connection)

    def closed(self, connection: "ClientConnection") -> None:
        """Forget a connection that ended, or is about to; twice is harmless."""
        self.connections.remove(connection)
        place, connection.place = connection.place, None
        if place is not None:
            place.leave()
        if self._crowd is not None and is_calm(self._max, len(self.connections)):
            self._end_crowd()

    def _may_enter(self, connection: "ClientConnection", asker: Client) -> bool:
        total = len(self.connections)
        crowd = self._crowd
        if crowd is None:
            if total < self._crowded_from:
                return True
            crowd = self._begin_crowd()
        key = _capped_key(asker)
        verdict = crowd.verdict(key, total)
        if verdict is not ADMIT and not (verdict is FULL and self._make_room(crowd)):
            self.turned_away.count("per_address" if verdict is PER_ADDRESS else "full")
            return False
        if key is not None:
            connection.place = crowd.enter(key, connection)
        return True

    def _make_room(self, crowd: "Crowd[ClientConnection]") -> bool:
        """End the connection that gives way; tell whether there is one."""
        first = crowd.first_to_go()
        if first is None:
            return False
        self.turned_away.count("evicted")
        self.closed(first)  # now: until its transport tells of its end others may come
        first.turn_away()
        return True

    def _begin_crowd(self) -> "Crowd[ClientConnection]":
        """Give every connection its place, those that wait longest first."""
        crowd = self._crowd = Crowd(self._max, self._per_address)
        for connection in sorted(self.connections, key=self._waits_since):
            key = _capped_key(cast(Client, connection.asker))
            if key is not None and connection.state is not _CLOSED:
                place: Place[ClientConnection] = crowd.enter(key, connection)
                connection.place = place
                if not _WITHOUT_HEAD[connection.state]:
                    place.serves()
        return crowd

    def _waits_since(self, connection: "ClientConnection") -> float:
        return connection.deadline_at - self._waits_s[connection.state]

    def _end_crowd(self) -> None:
        self._crowd = None
        for connection in self.connections:
            connection.place = None


def _capped_key(asker: Client) -> str | None:
    """Give what a client's connections are counted under; None for those that are neither capped nor displaced."""
    return None if asker.trusted or asker.address_exempt else asker.key
