"""Everything the clients' connections share: settings, buffers, the sweep, the counters; and the listening sockets."""

import asyncio
import select
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import structlog

from proxy import clock
from proxy.downstream.admission import Admission
from proxy.downstream.ahead import Ahead
from proxy.downstream.connection import ClientConnection
from proxy.downstream.entrance import Entrance
from proxy.downstream.handshakes import Handshakes
from proxy.downstream.hangups import HangupWatcher
from proxy.downstream.settings import ConnectionSettings, ListenSettings
from proxy.errors import Reason
from proxy.http1.deadlines import DeadlineSweep
from proxy.http1.life_cycle import State
from proxy.observability.recorder import about
from proxy.pipeline import Pipeline
from proxy.upstream.exchange import Exchange

_LOOK_AT_CERTIFICATES_S: Final = 5.0
_ACCEPT_WITHIN_S: Final = 0.25  # what is queued at a stop; more may come without end

_log = structlog.get_logger("fairgate.access")


@dataclass(frozen=True, slots=True)
class TlsStatistics:
    """Handshakes `waiting` for their turn and `open` until the client has answered; begun and done since start.

    Those that failed are in `turned_away_total`, not those that left or were late. `certificate_expires_at`: the first of
    all, in seconds since 1970.
    """

    handshakes_waiting: int
    handshakes_open: int
    handshakes_begun_total: int
    handshakes_done_total: int
    certificate_expires_at: float


@dataclass(frozen=True, slots=True)
class ListenerStatistics:
    """`crowded`: more than three quarters of `connections.max` are taken. `turned_away_total`: connections by reason.

    `tls` is None where no listener speaks it.
    """

    crowded: bool
    turned_away_total: Mapping[str, int]
    tls: TlsStatistics | None


class Listener:
    """The clients' side of the application. `access` is what `log.access` says."""

    def __init__(
        self, pipeline: Pipeline, settings: ConnectionSettings, *, max_connections: int, access: str,
        sweep: DeadlineSweep[ClientConnection],
    ) -> None:  # fmt: skip
        self.loop = asyncio.get_running_loop()
        self.pipeline = pipeline
        self.stopping = False
        self.left_total = 0
        self.connections = sweep
        self.admission = Admission(sweep)
        self.handshakes = Handshakes(self.loop, self.admission.turned_away)
        self.hangups = HangupWatcher(self.loop)
        self.ahead = Ahead(self.loop)
        self._entrances: list[Entrance] = []
        self._queued_for_next = select.poll()
        self._certificates_due_at = 0.0

        self.configure(settings, max_connections=max_connections, access=access)
        self.turn(clock.now())

    def configure(self, settings: ConnectionSettings, *, max_connections: int, access: str) -> None:
        """Take settings, at start and whenever they change; who is connected is told apart by address anew."""
        self.settings = settings
        # Plain attributes for what is read with every request.
        self.logs_all = access == "all"
        self.max_requests = settings.max_requests
        self.max_age_s = settings.max_age_seconds
        self.max_head_bytes = settings.max_head_bytes
        self.max_fields = settings.max_fields
        self.max_target_bytes = settings.max_target_bytes
        self.admission.configure(settings, self.pipeline.client_keys, max_connections)

    def turn(self, now: float) -> None:
        """Four times a second. The instants are shared by all connections opened or parked until the next: 24 bytes each."""
        self.turn_at = now
        self.parked_until = now + self.settings.keep_alive_idle_seconds
        self.trusted_parked_until = now + self.settings.trusted_idle_seconds
        self.handshakes.turn(now)
        if now >= self._certificates_due_at:
            self._certificates_due_at = now + _LOOK_AT_CERTIFICATES_S
            self.reload_certificates()

    def reload_certificates(self) -> None:
        """Use certificates whose files changed."""
        for entrance in self._entrances:
            if entrance.contexts is not None:
                entrance.contexts.reload()

    # The listening sockets.

    async def listen(self, place: ListenSettings, handed_over: Sequence[socket.socket] = ()) -> None:
        """Listen at one more place, with the sockets that were handed over for it.

        Raises:
            OSError: if it is taken or not ours, or a certificate cannot be used.
        """
        entrance = Entrance(self, place)
        await entrance.open(handed_over)
        self._entrances.append(entrance)

    @property
    def addresses(self) -> list[str]:
        """Where it listens, with the ports that were free."""
        return [entrance.address for entrance in self._entrances]

    async def accept_queued(self) -> None:
        """Accept what clients have connected by now: closing a listening socket resets those that wait in it."""
        queued = select.poll()
        for entrance in self._entrances:
            entrance.watch(queued)
        ends_at = clock.now() + _ACCEPT_WITHIN_S
        while queued.poll(0) and clock.now() < ends_at:  # noqa: ASYNC110  (the kernel tells no event of it)
            await asyncio.sleep(0)

    def stop_accepting(self) -> None:
        """Close the listening sockets and tell every connection; those in service go on."""
        self.stopping = True
        for entrance in self._entrances:
            entrance.close()
            entrance.watch_doors(self._queued_for_next)
        now = clock.now()
        for connection in list(self.connections):
            connection.stop(now)

    def holds_up_newcomers(self) -> bool:
        """Tell whether clients wait at a socket that was handed over, which nobody accepts while this process is there."""
        return bool(self._queued_for_next.poll(0))

    def under_way(self) -> tuple[int, int]:
        """Count connections with work under way, and those that only wait; the others are parked. O(connections)."""
        busy = waits = 0
        for connection in self.connections:
            if not connection.is_parked:
                if connection.only_waits:
                    waits += 1
                else:
                    busy += 1
        return busy, waits

    def end_parked(self) -> bool:
        """Close connections between two requests; False if some are left, whose next request came in this moment."""
        parked = [connection for connection in self.connections if connection.is_parked]
        return all([connection.end_parked() for connection in parked])  # noqa: C419  (all of them, not until one is left)

    def close_all(self) -> None:
        """End what is still there."""
        for entrance in self._entrances:
            entrance.close_doors()
        self._queued_for_next = select.poll()
        for connection in list(self.connections):
            connection.stop_now()

    def abort_all(self) -> None:
        """End it without waiting for anybody to take what is written."""
        for connection in list(self.connections):
            connection.stop_at_once()

    # For connections.

    def answered(self, exchange: Exchange) -> None:
        """Log an exchange that ended with an answer, where all are logged (`logs_all`)."""
        if exchange.status:  # a refusal has its line already
            _log.info("request", status=exchange.status, **_times(exchange), **about(exchange, clock.now()))

    def left(self, exchange: Exchange, *, in_tunnel: bool) -> None:
        """A client left before its answer was complete: everyday life, not an error."""
        if not in_tunnel:
            self.left_total += 1
            _log.debug("left", **about(exchange, clock.now()))

    def refusal(
        self, reason: Reason, exchange: Exchange | None, retry_after_s: float | None, *, close: bool,
        address: str | None,
    ) -> bytes:  # fmt: skip
        """Have a refusal counted and told; give its bytes. `address` is the peer's key."""
        self.pipeline.recorder.refused(exchange, reason, clock.now(), address)
        head_only = exchange is not None and exchange.head.method == b"HEAD"
        return self.pipeline.refusal(reason, retry_after_s, close=close, head_only=head_only)

    @property
    def accepted_total(self) -> int:
        """How many connections were accepted, those turned away at once included."""
        return self.admission.accepted_total

    def statistics(self) -> ListenerStatistics:
        """Give the figures of who may come in."""
        return ListenerStatistics(
            crowded=self.admission.crowded,
            turned_away_total=MappingProxyType(self.admission.turned_away.totals.copy()),
            tls=self._tls_statistics(),
        )

    def _tls_statistics(self) -> TlsStatistics | None:
        contexts = [entrance.contexts for entrance in self._entrances if entrance.contexts is not None]
        if not contexts:
            return None
        return TlsStatistics(
            handshakes_waiting=self.handshakes.line.waiting,
            handshakes_open=self.handshakes.line.under_way,
            handshakes_begun_total=self.handshakes.begun_total,
            handshakes_done_total=self.handshakes.done_total,
            certificate_expires_at=min(
                certificate.expires_at for each in contexts for certificate in each.certificates
            ),
        )

    def states(self) -> dict[str, int]:
        """Count connections by state; O(connections), for those who look."""
        counts = dict.fromkeys((state.name.lower() for state in State if state != State.CLOSED), 0)
        for connection in self.connections:
            name = connection.state.name.lower()
            counts[name] = counts.get(name, 0) + 1
        return counts


def _times(exchange: Exchange) -> dict[str, float]:
    """Give how long it waited for its worker, and how long the homeserver took; the client's own time is in neither."""
    if exchange.times is None:
        return {}  # a tunnel
    wait_s, service_s = exchange.times
    return {"wait_seconds": round(wait_s, 4), "service_seconds": round(service_s, 4)}
