"""The bytes of a client's connection: reading and not reading, writing past a client that takes them slowly, and every end.

What the bytes mean is `connection.ClientConnection`'s, which is built on this. Three things hold here:

- What is not read is watched for a hang-up, and is watched no longer before its socket closes.
- What the client does not take is kept in an outbox; the client is looked at once a second until it has taken all.
- A connection is over in one of four ways: it *lingers* behind its last answer, it is *closed* with all that was written, it
  is *reset* where its end must not look like an answer's, or it is *aborted* since nobody is there.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from proxy import clock
from proxy.downstream.hangups import unread_bytes
from proxy.downstream.outbox import Outbox
from proxy.http1.crowd import Place
from proxy.http1.deadlines import NEVER
from proxy.http1.life_cycle import Event, State, next_state
from proxy.upstream.exchange import Exchange

if TYPE_CHECKING:
    from proxy.downstream.connection import ClientConnection
    from proxy.downstream.listener import Listener

# Members of an enumeration are slow to look up on it, and these are looked up for every request.
_IN_SERVICE, _LINGER, _TUNNEL = State.IN_SERVICE, State.LINGER, State.TUNNEL
_LEFT, _DRAINED = Event.LEFT, Event.DRAINED
MAX_AHEAD_BYTES: Final = 16_384  # kept of what a client sends ahead: §1.6
#: All connections read into this; a read is used up before the next begins. Only a large body may fill all of it at once:
#: elsewhere a read could hand over more than may be kept, before pausing takes effect.
BUFFER: Final = memoryview(bytearray(65_536))
_SMALL_BUFFER: Final = BUFFER[:MAX_AHEAD_BYTES]
#: A write above this goes to the kernel past the transport, which would keep all of what it could not send.
_LARGE_BYTES: Final = 4_096
_REMINDER_BYTES: Final = 1_024  # given to the transport then: it tells when the kernel has taken them
_EMPTY_LINE_BYTES: Final = 2  # may come between two requests
LOOK_S: Final = 1.0  # how often a slow body or a slow reader is looked at: §3.2
TUNNEL_IDLE_S: Final = 3600.0  # without a byte either way
_LINGER_S: Final = 2.0  # after a last answer, for the client to see it: §10.3
_LINGER_BYTES: Final = 1_048_576
_RESET: Final = struct.pack("ii", 1, 0)  # of SO_LINGER: closing resets, where it would end in order


def large_buffer(sizehint: int) -> memoryview:  # noqa: ARG001  (the protocol's signature)
    """Give room for a part of a large body."""
    return BUFFER


def small_buffer(sizehint: int) -> memoryview:  # noqa: ARG001  (the protocol's signature)
    """Give room for what may be kept."""
    return _SMALL_BUFFER


class ClientSocket:
    """See the module. A buffered protocol of the event loop by its methods, not by its base: so it can be compiled (ADR 21).

    `exchange` is what is served; `kept` are bytes read and not yet used; `outbox` is there while the client does not take its
    answer as fast as it comes; `place` is there while it is crowded; `dropped` counts what the client sent after its last
    answer; `ended` says that it will send no more.
    """

    __slots__ = (
        "_listener",
        "client_full",
        "deadline_at",
        "dropped",
        "ended",
        "exchange",
        "get_buffer",
        "kept",
        "outbox",
        "paused",
        "place",
        "state",
        "sweep_slot",
        "transport",
    )

    def __init__(self, listener: "Listener", state: State) -> None:
        self._listener = listener
        #: Shared functions, not methods: the transport keeps what it finds here, and a bound method each is 64 bytes.
        self.get_buffer: Callable[[int], memoryview] = small_buffer
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.state = state
        self.exchange: Exchange | None = None
        self.kept = b""
        self.outbox: Outbox | None = None
        self.place: Place[ClientConnection] | None = None
        self.deadline_at = NEVER
        self.sweep_slot = -1
        self.dropped = 0
        self.ended = False
        self.paused = False
        self.client_full = False

    def as_protocol(self) -> asyncio.BaseProtocol:
        """Give itself, as what the event loop takes it for."""
        return cast(asyncio.BaseProtocol, self)

    # Reading.

    def _read_into(self, buffer: Callable[[int], memoryview]) -> None:
        self.get_buffer = buffer
        if not self.transport.is_closing():
            self.transport.set_protocol(self.as_protocol())  # which looks for `get_buffer` anew

    def _set_paused(self, paused: bool) -> None:  # noqa: FBT001  (it is what the caller's condition is)
        """Read no more for now, or again; what is not read is watched for a hang-up."""
        if self.ended or paused == self.paused or self.transport.is_closing():
            return
        self.paused = paused
        if paused:
            self.transport.pause_reading()
            self._listener.hangups.watch(self, self._descriptor())
        else:
            self._listener.hangups.forget(self)
            self.transport.resume_reading()

    def _go_on_without_reading(self) -> None:
        """The client sends no more; only a reset tells now that it is gone."""
        self.ended = True
        self._listener.hangups.watch(self, self._descriptor(), ended=True)

    def hung_up(self, *, gone: bool, unread_bytes: int) -> None:
        """While it is not being read: the client is gone, or sends no more than what lies in the kernel."""
        raise NotImplementedError

    def _watch_no_longer(self) -> None:
        """Before a paused connection closes: its descriptor may be another's a moment later."""
        if self.paused or self.ended:
            self.paused = False
            self._listener.hangups.forget(self)

    def _descriptor(self) -> int:
        descriptor: int = self.transport.get_extra_info("socket").fileno()
        return descriptor

    # Writing.

    def write(self, data: bytes) -> None:
        """Send to the client, or keep it while it takes no more."""
        while (outbox := self.outbox) is None:  # by what is sent it may come to be, and to go again
            if len(data) <= _LARGE_BYTES:
                self.transport.write(data)
                return
            data = self.send(data)
            if not data:
                return
        if not outbox.write(data):
            self._set_answer_paused(True)

    def send(self, data: bytes) -> bytes:
        """Write what the kernel takes, and give what is left; a little of that the transport keeps, to know when to go on."""
        transport = self.transport
        if len(data) <= _LARGE_BYTES or transport.is_closing():
            transport.write(data)
            return b""
        sent = self._send_at_once(data)
        if sent == len(data):
            return b""
        end = sent + _REMINDER_BYTES
        transport.write(data[sent:end])
        return data[end:]

    def _send_at_once(self, data: bytes) -> int:
        """Give the kernel as much as it takes now, behind all that was written; tell how much that was."""
        if self.transport.get_write_buffer_size():
            return 0
        try:
            return os.write(self._descriptor(), data)
        except OSError:
            return 0  # it is full, or the transport finds out for itself what is wrong

    def pause_writing(self) -> None:
        """The client takes no more of its answer for now."""
        self.client_full = True
        if self.state is _TUNNEL:
            self._set_answer_paused(True)
            return
        now = clock.now()
        if self.outbox is None:
            self.outbox = self._new_outbox(now)
        self.outbox.socket_is_full(now)
        self.deadline_at = now + LOOK_S

    def resume_writing(self) -> None:
        """It does again."""
        self.client_full = False
        if self.state is _TUNNEL:
            self.deadline_at = clock.now() + TUNNEL_IDLE_S
            self._set_answer_paused(False)
        elif self.outbox is not None:
            self.outbox.socket_has_room(clock.now())

    def _set_answer_paused(self, paused: bool) -> None:  # noqa: FBT001  (it is what the caller's condition is)
        exchange = self.exchange
        if exchange is not None and exchange.upstream is not None:
            exchange.upstream.set_client_full(paused)

    def _new_outbox(self, now: float) -> Outbox:
        principal = None if self.exchange is None else self.exchange.principal
        return Outbox(self, self._listener.pipeline.bodies, principal, now)

    def _drop_outbox(self) -> None:
        outbox, self.outbox = self.outbox, None
        if outbox is not None:
            outbox.end()

    def _look_at_reader(self, now: float) -> None:
        """End a client that takes its answer too slowly."""
        if self.outbox is None:
            self.outbox = self._new_outbox(now)
        elif self.outbox.too_slow(now):
            self._end(Event.DEADLINE)
            return
        self.deadline_at = now + LOOK_S

    def outbox_has_room(self) -> None:
        """More of the answer may be kept."""
        self._set_answer_paused(False)

    def outbox_drained(self) -> None:
        """The client has taken what was kept for it."""
        raise NotImplementedError

    def outbox_lost(self) -> None:
        """A part of the answer cannot be read again: the client must be able to tell."""
        self._abandon_exchange()
        self._reset()

    # Ending.

    def _linger(self) -> None:
        """Close so that the client sees the answer: half-close, drop what still comes, then close."""
        self._gives_way_no_longer()
        self.state = next_state(self.state, Event.ANSWERED_LAST)
        self.deadline_at = clock.now() + _LINGER_S
        self.kept = b""
        self._set_paused(False)
        if self.ended:
            self.transport.close()
        elif not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()

    def _linger_on(self) -> None:
        """The client has taken its last answer only now."""
        self.deadline_at = clock.now() + _LINGER_S

    def drop(self, size_bytes: int) -> None:
        """Count what comes behind the last answer, and end a client that does not stop."""
        self.dropped += size_bytes
        if self.dropped > _LINGER_BYTES and self.state is _LINGER:
            self._end(_DRAINED)

    def _gives_way_no_longer(self) -> None:
        if self.place is not None:
            self.place.serves()

    def _close(self) -> None:
        """Close once all that was written is taken, or its time is over."""
        self._gives_way_no_longer()
        self._watch_no_longer()
        self._drop_outbox()
        self.kept = b""
        self.transport.close()
        self.deadline_at = clock.now() + _LINGER_S

    def _reset(self) -> None:
        """End so that it cannot be taken for the end of an answer."""
        self._gives_way_no_longer()
        self.state = next_state(self.state, _LEFT)
        self.kept = b""
        self._watch_no_longer()
        self._drop_outbox()
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
        self.deadline_at = clock.now() + _LINGER_S

    def _left(self) -> None:
        """The client is gone: nothing of its request goes on."""
        if self.exchange is not None:
            self._listener.left(self.exchange, in_tunnel=self.state is _TUNNEL)
        self._end(_LEFT)

    def _end(self, event: Event) -> None:
        self._abandon_exchange()
        self._gives_way_no_longer()
        self.state = next_state(self.state, event)
        if event is _DRAINED:
            self._close()
        else:
            self._watch_no_longer()
            self._drop_outbox()
            self.kept = b""
            self.transport.abort()

    def _abandon_exchange(self) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.left(clock.now())

    @property
    def is_parked(self) -> bool:
        """Whether it is between two requests, has none kept, and all of its last answer is with the kernel."""
        return (
            self.state is State.PARKED
            and len(self.kept) <= _EMPTY_LINE_BYTES
            and not self.client_full
            and not self.transport.get_write_buffer_size()
        )

    def end_parked(self) -> bool:
        """Close it between two requests, unless one came that is not read yet."""
        if not self.transport.is_closing() and unread_bytes(self._descriptor()):
            return False
        self._end(Event.DEADLINE)
        return True

    @property
    def only_waits(self) -> bool:
        """Whether nothing is lost but a wait if it ends: a tunnel, or a long poll without anything to tell yet."""
        exchange = self.exchange
        if self.state is not _IN_SERVICE or exchange is None:
            return self.state is _TUNNEL
        waits = exchange.permits is not None and exchange.permits.wait is not None
        return waits and exchange.ticket is None and exchange.body_complete and not exchange.answer_began

    def stop_at_once(self) -> None:
        """Nobody waits any longer for what is still to be taken."""
        self._watch_no_longer()
        self.transport.abort()
