"""One tunnel: bytes both ways as they came, each side pausing the other; watched where it leads to a gateway.

A watched tunnel counts as a delivery from its CONNECT to the first answer, and again from each further request to its
answer (`policies.stalled_tunnels`). A further request that finds no place is kept here, at most one read of 64 KiB, with the
homeserver's side paused; after 30 s the tunnel is cut. Every tunnel ends: an unanswered delivery a little after the
homeserver's timeout, an idle one after `_GATEWAY_IDLE_S` or `_IDLE_S`, one half closed after `_HALF_CLOSED_S`. One that ended
in order leaves each side as long to take what was written for it; a far side that is left is in `Egress.left`.
"""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from proxy.egress.deliveries import MAX_WAIT_S, Delivery, RefusedError
from proxy.http1.deadlines import NEVER
from proxy.policies.push_egress import DeliveryEnd
from proxy.policies.stalled_tunnels import Sign, TunnelWatch

if TYPE_CHECKING:
    from proxy.egress.connection import HomeserverConnection
    from proxy.egress.egress import Egress

_BUFFER: Final = memoryview(bytearray(65_536))  # a read is used up before the next begins
_GATEWAY_IDLE_S: Final = 300.0  # homeservers keep theirs for up to 120
_IDLE_S: Final = 900.0  # federation requests may be silent for minutes
_HALF_CLOSED_S: Final = 10.0

_REQUEST, _ANSWERED, _DOUBTED = Sign.REQUEST, Sign.ANSWERED, Sign.DOUBTED
_END_OF: Final = {
    Sign.ANSWERED: DeliveryEnd.ANSWERED,
    Sign.STALLED: DeliveryEnd.STALLED,
    Sign.TLS_FAILED: DeliveryEnd.TLS_FAILED,
    Sign.CLOSED: DeliveryEnd.CLOSED,
}


class Tunnel:
    """See the module. `delivery` is the one under way; `watch` is None where nothing is counted."""

    __slots__ = (
        "_early", "_egress", "_ended", "_half_closed_at", "_held", "_stands", "address", "client", "delivery", "far", "host",
        "last_at", "port", "waits_until", "watch",
    )  # fmt: skip

    def __init__(self, egress: "Egress", client: "HomeserverConnection", host: str, port: int) -> None:
        self._egress = egress
        self.client = client
        self.far = FarSide(self, egress)
        self.host = host
        self.port = port
        self.address = ""
        self.delivery: Delivery | None = None
        self.watch: TunnelWatch | None = None
        self.last_at = egress.clock()
        self.waits_until: float | None = None
        self._held = b""
        self._early = b""
        self._stands = False
        self._half_closed_at: float | None = None
        self._ended = False

    def watched(self, delivery: Delivery, watch: TunnelWatch, address: str) -> None:
        """It leads to a gateway, and a delivery is under way."""
        self.delivery = delivery
        self.watch = watch
        self.address = address
        self._egress.deliveries.add(delivery.key, self)

    def begin(self, kept: bytes) -> None:
        """Both sides stand: let bytes pass, those that came early first."""
        self._stands = True
        if self.watch is not None:
            self.watch.opened(self._egress.clock())
        self.arm()
        if kept:
            self.from_homeserver(kept)
        if self._early:
            early, self._early = self._early, b""
            self.from_gateway(early)
        self.far.read(not self.client.full)

    @property
    def is_over(self) -> bool:
        """Whether the far side ended before the tunnel stood, or both sides have."""
        return self._ended or self.far.transport.is_closing()

    @property
    def is_idle(self) -> bool:
        """Whether nobody is known to wait for anything in it."""
        return self.delivery is None and self.waits_until is None

    # Bytes.

    def from_homeserver(self, data: bytes) -> None:
        """Pass on, or keep while a delivery waits for its place."""
        self.last_at = self._egress.clock()
        if self.waits_until is not None:
            self._held += data
            return
        watch = self.watch
        if watch is not None:
            sign = watch.from_homeserver(data, self.last_at)
            if sign is _REQUEST and not self._request_began(data):
                return
            if watch.opaque:
                self._watch_no_longer()
        self.far.transport.write(data)

    def from_gateway(self, data: bytes) -> None:
        """Pass on."""
        if not self._stands:
            self._early += data
            self.far.transport.pause_reading()
            return
        self.last_at = self._egress.clock()
        if self.watch is not None and self.watch.from_gateway(data, self.last_at) is _ANSWERED:
            self._end_delivery(DeliveryEnd.ANSWERED)
        self.client.transport.write(data)

    def _request_began(self, data: bytes) -> bool:
        """Another delivery: tell whether it may go on now."""
        if self.delivery is not None:
            self._end_delivery(DeliveryEnd.ANSWERED)  # else the homeserver would not send another
        deliveries = self._egress.deliveries
        if self._egress.known.is_peer(self.host):
            self._watch_no_longer()
            return True
        try:
            self.delivery = deliveries.begin(self.host, self.port, tls=True)
            if deliveries.ask_place(self.delivery, self.address, self._place_granted):
                self.arm()
                return True
        except RefusedError:
            self.cut()
            return False
        self._held = data
        self.waits_until = self.last_at + MAX_WAIT_S
        self.client.transport.pause_reading()
        self.arm()
        return False

    def _place_granted(self) -> None:
        if self._ended or self.waits_until is None:
            return
        self.waits_until = None
        data, self._held = self._held, b""
        self.far.transport.write(data)
        if not self.far.full:
            self.client.transport.resume_reading()
        self.arm()

    # Ends.

    def homeserver_ended(self, *, reset: bool) -> bool:
        """The homeserver sends no more; tell whether the gateway's side may still send."""
        self._judge(
            self.watch.ended_by_homeserver(self._egress.clock(), reset=reset) if self.watch else Sign.OVER
        )
        return self._half_close(self.far.transport, reset=reset)

    def gateway_ended(self, *, reset: bool) -> bool:
        """The gateway sends no more; tell whether the homeserver's side may still send."""
        if not self._stands:
            self._ended = True
            return False
        self._judge(self.watch.ended_by_gateway() if self.watch else Sign.OVER)
        return self._half_close(self.client.transport, reset=reset)

    def _judge(self, sign: Sign) -> None:
        """Learn from an end; a tunnel that has begun to end is watched no longer."""
        if sign is _DOUBTED:
            self._egress.deliveries.doubt(self.host, self.port)
        elif self.delivery is not None:
            self._end_delivery(_END_OF.get(sign, DeliveryEnd.ABANDONED))
        if self.watch is not None:
            self._watch_no_longer()

    def _half_close(self, other: asyncio.Transport, *, reset: bool) -> bool:
        if self._ended:
            return False
        if reset or self._half_closed_at is not None or self.waits_until is not None or other.is_closing():
            self.cut(other_in_order=not reset)
            return False
        self._half_closed_at = self._egress.clock()
        if other.can_write_eof():
            other.write_eof()
        self.arm()
        return True

    def cut(self, *, other_in_order: bool = False) -> None:
        """End both sides now; `other_in_order` lets what is written be taken first."""
        if self._ended:
            return
        self._ended = True
        self._end_delivery(DeliveryEnd.DECLINED)
        if self.watch is not None:
            self._watch_no_longer()
        for transport in (self.client.transport, self.far.transport):
            if other_in_order:
                transport.close()
            else:
                transport.abort()
        if other_in_order:
            self.client.deadline_at = self.far.deadline_at = self._egress.clock() + _HALF_CLOSED_S
            self._egress.left.add(self.far)  # the homeserver's side may be gone before this one has taken all

    def _end_delivery(self, how: DeliveryEnd) -> None:
        delivery, self.delivery = self.delivery, None
        if delivery is not None:
            self._egress.deliveries.end(delivery, how)
            self.arm()

    def _watch_no_longer(self) -> None:
        if self.delivery is not None:
            self._end_delivery(DeliveryEnd.ABANDONED)
        self.watch = None
        self._egress.deliveries.remove(self._egress.key_of(self.host, self.port), self)

    # Deadlines.

    def arm(self) -> None:
        """Set the deadline anew; a byte alone does not."""
        self.client.deadline_at = self._deadline()

    def _deadline(self) -> float:
        if self._half_closed_at is not None:
            return self._half_closed_at + _HALF_CLOSED_S
        if self.waits_until is not None:
            return self.waits_until
        if self.watch is not None and self.delivery is not None:
            return self.watch.gives_up_at
        return self.last_at + (_IDLE_S if self.watch is None else _GATEWAY_IDLE_S)

    def deadline_passed(self, now: float) -> None:
        """Act on the deadline, if it is one still."""
        if self._ended:
            self.client.transport.abort()
        elif self._deadline() > now:
            self.arm()
        elif self._half_closed_at is None and self.waits_until is None and self.watch and self.delivery:
            if self.watch.deadline_passed() is _ANSWERED:
                self._end_delivery(DeliveryEnd.ANSWERED)
            else:
                self._end_delivery(DeliveryEnd.STALLED)
                self.cut()
        else:
            self.cut()


class FarSide(asyncio.BufferedProtocol):
    """The connection to the host that a tunnel leads to."""

    __slots__ = ("_egress", "_tunnel", "deadline_at", "full", "sweep_slot", "transport")

    def __init__(self, tunnel: Tunnel, egress: "Egress") -> None:
        self._tunnel = tunnel
        self._egress = egress
        self.deadline_at = NEVER  # until the tunnel has ended in order
        self.sweep_slot = -1
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def read(self, read: bool) -> None:  # noqa: FBT001  (what flow control says)
        """Read, or leave it to the host for now."""
        if self.transport.is_closing():
            return
        if read:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    @staticmethod
    def get_buffer(sizehint: int) -> memoryview:  # noqa: ARG004  (of the base)
        """Read into the buffer that all share."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on."""
        self._tunnel.from_gateway(_BUFFER[:nbytes].tobytes())

    def eof_received(self) -> bool:
        """The host sends no more."""
        return self._tunnel.gateway_ended(reset=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """The host is gone."""
        self._tunnel.gateway_ended(reset=exc is not None)
        self._tunnel.cut(other_in_order=True)
        self._egress.left.remove(self)

    def pause_writing(self) -> None:
        """The host takes no more for now."""
        self.full = True
        if not self._tunnel.client.transport.is_closing():
            self._tunnel.client.transport.pause_reading()

    def resume_writing(self) -> None:
        """It does again."""
        self.full = False
        if self._tunnel.waits_until is None and not self._tunnel.client.transport.is_closing():
            self._tunnel.client.transport.resume_reading()
