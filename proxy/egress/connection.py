"""A connection of the homeserver's: it asks for tunnels and plain requests, one at a time, and is kept between them.

Whatever waits (a name, a place, a connect) waits in one task a request, which ends when the homeserver leaves. What the
homeserver sends ahead is kept, at most one read beyond 64 KiB, then its socket is left alone.
"""

import asyncio
import socket
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, cast

from proxy.egress.deliveries import Delivery, RefusedError
from proxy.egress.dialer import DialError
from proxy.egress.exchange import PlainExchange
from proxy.egress.origin import OriginConnection
from proxy.egress.reasons import EgressReason
from proxy.egress.request import MAX_HEAD_BYTES, ProxyRequest, parse_proxy_request
from proxy.egress.tunnel import Tunnel
from proxy.errors import Reason, Refused, Told, refusal_bytes
from proxy.gate.steps import FIRST_HINT_S, outage_hint_s
from proxy.http1.deadlines import NEVER
from proxy.policies.push_egress import DeliveryEnd, is_delivery
from proxy.policies.stalled_tunnels import TunnelWatch

if TYPE_CHECKING:
    from proxy.egress.egress import Egress

_BUFFER: Final = memoryview(bytearray(65_536))  # a read is used up before the next begins
_MAX_AHEAD_BYTES: Final = 65_536
_IDLE_S: Final = 300.0  # between requests; Synapse keeps its own for 120
_HEAD_S: Final = 30.0
_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 1_048_576
_RESET: Final = struct.pack("ii", 1, 0)  # of SO_LINGER: closing resets
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_END_OF: Final = {
    EgressReason.HOST_UNRESOLVED: DeliveryEnd.UNRESOLVED,
    EgressReason.HOST_UNREACHABLE: DeliveryEnd.UNCONNECTED,
}


class _LeftError(Exception):
    """The homeserver left while its request waited."""


class ConnectionState(IntEnum):
    """What the connection waits for: a head, an answer, bytes of a tunnel, or to be closed."""

    HEAD = 0
    BUSY = 1
    TUNNEL = 2
    LINGER = 3


_IN_HEAD, _BUSY, _TUNNEL, _LINGER = ConnectionState


class HomeserverConnection(asyncio.BufferedProtocol):
    """See the module."""

    __slots__ = (
        "_dropped", "_egress", "_exchange", "_kept", "_paused", "_request", "_task", "deadline_at", "full", "state",
        "sweep_slot", "transport", "tunnel",
    )  # fmt: skip

    def __init__(self, egress: "Egress") -> None:
        self._egress = egress
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.state = _IN_HEAD
        self.tunnel: Tunnel | None = None
        self.deadline_at = NEVER
        self.sweep_slot = -1
        self._request: ProxyRequest | None = None
        self._exchange: PlainExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._kept = b""
        self._paused = False
        self.full = False
        self._dropped = 0

    @property
    def waits(self) -> asyncio.Task[None] | None:
        """What waits for a name, a place or a connect on its behalf; cancelled when the connection ends."""
        return self._task

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, if it is one of the homeserver's."""
        self.transport = cast("asyncio.Transport", transport)
        self.deadline_at = self._egress.clock() + _IDLE_S
        self._egress.opened(self)

    @staticmethod
    def get_buffer(sizehint: int) -> memoryview:  # noqa: ARG004  (of the base)
        """Read into the buffer that all share."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Use what was read."""
        data = _BUFFER[:nbytes].tobytes()
        if self.state is _TUNNEL and self.tunnel is not None:
            self.tunnel.from_homeserver(data)
        elif self.state is _IN_HEAD:
            if not self._kept:
                self.deadline_at = self._egress.clock() + _HEAD_S
            self._kept += data
            self._read_head()
            if self.full and len(self._kept) >= _MAX_AHEAD_BYTES:
                self._pause()
        elif self.state is _BUSY:
            exchange = self._exchange
            if exchange is not None and exchange.origin is not None and exchange.body_left:
                data = exchange.take_body(data)
            self._kept += data
            if len(self._kept) >= _MAX_AHEAD_BYTES:
                self._pause()
        else:
            self._dropped += nbytes
            if self._dropped > _LINGER_BYTES:
                self.transport.abort()

    def eof_received(self) -> bool:
        """The homeserver sends no more: it has left, but for a tunnel's other direction."""
        if self.state is _TUNNEL and self.tunnel is not None:
            return self.tunnel.homeserver_ended(reset=False)
        self._left()
        self._kept = b""
        self.deadline_at = self._egress.clock() + _LINGER_S  # for what is written to be taken
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Let everything go that is still held."""
        if self.tunnel is not None:
            self.tunnel.homeserver_ended(reset=exc is not None)
            self.tunnel.cut(other_in_order=True)
        self._left()
        self._egress.closed(self)

    def pause_writing(self) -> None:
        """The homeserver takes no more for now: nothing more is read for it, and no further request is begun."""
        self.full = True
        self._read_far(False)

    def resume_writing(self) -> None:
        """It does again."""
        self.full = False
        self._read_far(True)
        self._read_head()

    def _read_far(self, read: bool) -> None:  # noqa: FBT001  (what `pause_writing` and its opposite say)
        if self.tunnel is not None:
            self.tunnel.far.read(read)
        elif self._exchange is not None and self._exchange.origin is not None:
            self._exchange.origin.read(read)

    def deadline_passed(self, now: float) -> None:
        """Act on the deadline of the present state."""
        if self.state is _TUNNEL and self.tunnel is not None:
            self.tunnel.deadline_passed(now)
        elif self.state is _IN_HEAD and self._kept:
            self.tell(Reason.HEAD_TIMEOUT, close=True)
        else:
            self.transport.abort()

    # Reading.

    def read_body(self, read: bool) -> None:  # noqa: FBT001  (what flow control says)
        """The host takes more of the body, or none for now."""
        if read:
            self._resume()
        else:
            self._pause()

    def _pause(self) -> None:
        if not self._paused and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    def _read_head(self) -> None:
        if self.state is not _IN_HEAD or not self._kept or self.full:
            return
        start = 2 if self._kept.startswith(b"\r\n") else 0
        end = self._kept.find(b"\r\n\r\n", start) + 4
        if end == 3 or end > MAX_HEAD_BYTES:
            if len(self._kept) > MAX_HEAD_BYTES:
                self.tell(Reason.HEAD_TOO_LARGE, close=True)
            elif b"\n\n" in self._kept:
                self.tell(Reason.BAD_FIELD, close=True)
            return
        head, self._kept = self._kept[start:end], self._kept[end:]
        try:
            request = parse_proxy_request(head)
        except Refused as refused:
            self.tell(refused.reason, close=True)
            return
        self.state = _BUSY
        self.deadline_at = NEVER
        self._request = request
        self._egress.requests_total["connect" if request.connect else "plain"] += 1
        self._task = self._egress.loop.create_task(self._serve(request))

    # One request.

    async def _serve(self, request: ProxyRequest) -> None:
        """Do what there is to wait for; whatever happens, a delivery that was begun is ended or handed on."""
        egress = self._egress
        begun: list[Delivery] = []
        how = DeliveryEnd.ABANDONED
        try:
            delivery = self._begin_delivery(request)
            if delivery is not None:
                begun.append(delivery)
            if request.connect:
                await self._open_tunnel(request, delivery)
            else:
                await self._forward(request, delivery)
            begun.clear()
        except DialError as error:
            how = _END_OF.get(error.reason, DeliveryEnd.DECLINED)
            self._tell_of(request, error.reason)
        except _LeftError:
            pass
        except RefusedError as error:
            how = DeliveryEnd.DECLINED
            self._tell_of(request, error.reason, error.retry_after_s)
        finally:
            for delivery in begun:
                egress.deliveries.end(delivery, how)

    def _begin_delivery(self, request: ProxyRequest) -> Delivery | None:
        """Begin a delivery where this is one; a plain one is known by its path, a tunnel by its host."""
        egress = self._egress
        if request.connect:
            if not egress.known.is_gateway(request.host, request.port):
                return None
        elif is_delivery(request.head.method, request.head.target):
            egress.learn(request.host, request.port)
        else:
            return None
        return egress.deliveries.begin(
            request.host, request.port, tls=request.connect, spelled=request.spelled
        )

    async def _open_tunnel(self, request: ProxyRequest, delivery: Delivery | None) -> None:
        egress, deliveries = self._egress, self._egress.deliveries
        began_at = egress.clock()
        addresses = await egress.dialer.addresses(request.host, request.port)
        if delivery is not None and not deliveries.is_peer(delivery):
            await deliveries.wait_place(delivery, addresses[0])
        tunnel = Tunnel(egress, self, request.host, request.port)
        _, address = await egress.dialer.connect(addresses, request.port, lambda: tunnel.far)
        try:
            self._demand(not tunnel.is_over)
            if delivery is not None:
                deliveries.went_to(delivery, address)
        except (DialError, RefusedError, _LeftError):
            tunnel.far.transport.abort()
            raise
        if delivery is not None and delivery.place is None:
            deliveries.end(delivery, DeliveryEnd.CONNECTED)
        elif delivery is not None:
            timeout_s = egress.settings.delivery_timeout_seconds
            on_trial = deliveries.is_on_trial(delivery.key)
            tunnel.watched(delivery, TunnelWatch(began_at, timeout_s, on_trial=on_trial), address)
        self._task = None
        self.transport.write(_ESTABLISHED)
        self.tunnel = tunnel
        self.state = _TUNNEL
        kept, self._kept = self._kept, b""
        self._resume()
        tunnel.begin(kept)

    async def _forward(self, request: ProxyRequest, delivery: Delivery | None) -> None:
        egress, deliveries = self._egress, self._egress.deliveries
        exchange = self._exchange = PlainExchange(egress, self, request)
        place = (request.host, request.port)
        kept = egress.kept.peek(place)
        addresses = [kept.address] if kept is not None else await egress.dialer.addresses(*place)
        if delivery is not None and not deliveries.is_peer(delivery):
            await deliveries.wait_place(delivery, addresses[0])
        origin = egress.kept.take(place)
        if origin is None:
            addresses = await egress.dialer.addresses(*place)
            origin = OriginConnection(egress.kept, place)
            _, origin.address = await egress.dialer.connect(addresses, request.port, lambda: origin)
        try:
            self._demand(not origin.transport.is_closing())
            if delivery is not None:
                deliveries.went_to(delivery, origin.address)
        except (DialError, RefusedError, _LeftError):
            origin.transport.abort()
            raise
        if delivery is not None and delivery.place is None:
            deliveries.end(delivery, DeliveryEnd.CONNECTED)
        else:
            exchange.delivery = delivery
        self._task = None
        data, self._kept = self._kept, b""
        self._resume()  # before the host says that it is full
        self._kept += exchange.run(origin, data)

    def _demand(self, stands: bool) -> None:  # noqa: FBT001  (a condition)
        """Go no further for a homeserver that left meanwhile, or with a host that accepted and closed at once."""
        if self.transport.is_closing():
            raise _LeftError
        if not stands:
            raise DialError(EgressReason.HOST_UNREACHABLE)

    # For the exchange.

    def answered(self, *, close: bool) -> None:
        """The answer is written: serve the next request, or end."""
        self._exchange = self._request = None
        if close or self._egress.stopping:
            self._linger()
            return
        self.state = _IN_HEAD
        self.deadline_at = self._egress.clock() + (_HEAD_S if self._kept else _IDLE_S)
        self._resume()
        if self._kept:
            self._egress.loop.call_soon(self._read_head)

    def tell(self, reason: Told, *, close: bool, retry_after_s: float = FIRST_HINT_S) -> None:
        """Answer in the host's place."""
        request = self._request
        self._egress.refused(reason, request)
        head_only = request is not None and request.head.method == b"HEAD" and not request.connect
        hint_s = outage_hint_s(retry_after_s) if reason.retry else None
        self.transport.write(refusal_bytes(reason, retry_after_s=hint_s, close=close, head_only=head_only))
        self.answered(close=close)

    def _tell_of(
        self, request: ProxyRequest, reason: EgressReason, retry_after_s: float = FIRST_HINT_S
    ) -> None:
        """Answer a request that got no connection; its body, if any, was not read."""
        self._task = None
        self.tell(
            reason,
            close=not request.head.fields.keep_alive or request.head.fields.length != 0,
            retry_after_s=retry_after_s,
        )

    def cut(self) -> None:
        """The answer broke off: a reset tells, where its end is the connection's too."""
        self._exchange = None
        if not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()

    # Ends.

    def close(self) -> None:
        """End now, whatever is under way."""
        if self.tunnel is not None:
            self.tunnel.cut()
        self.transport.abort()

    def _linger(self) -> None:
        """Half-close, and drop what still comes, so that the answer is seen."""
        self.state = _LINGER
        self.deadline_at = self._egress.clock() + _LINGER_S
        self._kept = b""
        self._resume()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def _left(self) -> None:
        """Nobody waits any more for what is under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.homeserver_left()
