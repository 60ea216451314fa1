"""Connections to hosts for plain requests: one runs one exchange; kept idle ones serve the next to the same host."""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from proxy.http1.deadlines import NEVER, DeadlineSweep

if TYPE_CHECKING:
    from proxy.egress.exchange import PlainExchange

_BUFFER: Final = memoryview(bytearray(65_536))  # a read is used up before the next begins
_KEPT_S: Final = 15.0
_MAX_KEPT: Final = 128
_MAX_KEPT_OF_ONE: Final = 8


class OriginConnection(asyncio.BufferedProtocol):
    """See the module; `address` is what it is connected to."""

    __slots__ = (
        "_kept",
        "address",
        "deadline_at",
        "exchange",
        "paused",
        "place",
        "sweep_slot",
        "transport",
    )

    def __init__(self, kept: "KeptOrigins", place: tuple[str, int]) -> None:
        self._kept = kept
        self.place = place
        self.address = ""
        self.exchange: PlainExchange | None = None
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.deadline_at = NEVER
        self.sweep_slot = -1
        self.paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self._kept.sweep.add(self)

    def read(self, read: bool) -> None:  # noqa: FBT001  (what flow control says)
        """Read the answer, or leave it to the host for now."""
        if read == self.paused and not self.transport.is_closing():
            self.paused = not read
            if read:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    @staticmethod
    def get_buffer(sizehint: int) -> memoryview:  # noqa: ARG004  (of the base)
        """Read into the buffer that all share."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Read the answer; bytes nobody asked for end the connection."""
        if self.exchange is None:
            self._kept.discard(self)
        else:
            self.exchange.from_origin(_BUFFER[:nbytes].tobytes())

    def eof_received(self) -> bool:
        """The host sends no more."""
        if self.exchange is None:
            self._kept.discard(self)
        else:
            self.exchange.origin_ended(in_order=True)
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """Forget it; who waits for an answer is told."""
        self._kept.sweep.remove(self)
        self._kept.forget(self)
        if self.exchange is not None:
            self.exchange.origin_ended(in_order=False)

    def pause_writing(self) -> None:
        """The host takes no more of the request for now."""
        if self.exchange is not None:
            self.exchange.origin_full(True)

    def resume_writing(self) -> None:
        """It does again."""
        if self.exchange is not None:
            self.exchange.origin_full(False)

    def deadline_passed(self, now: float) -> None:  # noqa: ARG002  (as every owner's)
        """Kept too long, or an answer too late."""
        if self.exchange is None:
            self._kept.discard(self)
        else:
            self.exchange.too_late()


class KeptOrigins:
    """The idle ones, few and for a short while; `sweep` has all."""

    def __init__(self, sweep: "DeadlineSweep[OriginConnection]") -> None:
        self.sweep = sweep
        self._idle: dict[tuple[str, int], list[OriginConnection]] = {}
        self.number = 0

    def peek(self, place: tuple[str, int]) -> OriginConnection | None:
        """Give the one used last, and leave it."""
        idle = self._idle.get(place)
        return idle[-1] if idle else None

    def take(self, place: tuple[str, int]) -> OriginConnection | None:
        """Give the one used last."""
        origin = self.peek(place)
        if origin is not None:
            self.forget(origin)
            origin.deadline_at = NEVER
        return origin

    def keep(self, origin: OriginConnection, now: float) -> None:
        """Keep one whose exchange ended well, or close it where there are enough."""
        origin.exchange = None
        idle = self._idle.setdefault(origin.place, [])
        if self.number >= _MAX_KEPT or len(idle) >= _MAX_KEPT_OF_ONE or origin.transport.is_closing():
            if not idle:
                del self._idle[origin.place]
            origin.transport.abort()
            return
        idle.append(origin)
        origin.read(True)  # its end must be seen, and the next exchange's answer
        self.number += 1
        origin.deadline_at = now + _KEPT_S

    def discard(self, origin: OriginConnection) -> None:
        """Close an idle one."""
        self.forget(origin)
        origin.transport.abort()

    def forget(self, origin: OriginConnection) -> None:
        """Let one go, if it is kept."""
        idle = self._idle.get(origin.place)
        if idle is not None and origin in idle:
            idle.remove(origin)
            self.number -= 1
            if not idle:
                del self._idle[origin.place]

    def close(self) -> None:
        """End all, busy ones too."""
        for origin in list(self.sweep):
            origin.transport.abort()
