"""A client's connection: reads heads and bodies, writes answers, and keeps to the table in `http1.life_cycle`.

A parked connection is this object and its transport, nothing else: no parser, buffer, task or timer. One request is served
at a time; what the client sends ahead is kept up to 16 KiB, then its socket is left alone and watched for a hang-up.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from proxy import clock
from proxy.downstream.outbox import Outbox
from proxy.errors import Reason, Refused
from proxy.http1.chunked import BadChunkError
from proxy.http1.deadlines import NEVER
from proxy.http1.life_cycle import Event, State, next_state
from proxy.http1.partial_head import head_end, why_hopeless
from proxy.http1.request_head import CHUNKED, parse_request_head
from proxy.identity.client_key import Client
from proxy.upstream.exchange import Exchange
from proxy.upstream.request_body import RequestBody

if TYPE_CHECKING:
    from proxy.downstream.listener import Listener

# Members of an enumeration are slow to look up on it, and these are looked up for every request.
_FIRST_BYTE, _HEAD, _IN_SERVICE, _PARKED, _LINGER, _TUNNEL, _CLOSED = State
_BYTES, _HEAD_COMPLETE, _ANSWERED = Event.BYTES, Event.HEAD_COMPLETE, Event.ANSWERED
_MAX_AHEAD_BYTES: Final = 16_384  # kept of what a client sends ahead: §1.6
#: All connections read into this; a read is used up before the next begins. Only a large body may fill all of it at once:
#: elsewhere a read could hand over more than may be kept, before pausing takes effect.
_BUFFER: Final = memoryview(bytearray(65_536))
_SMALL_BUFFER: Final = _BUFFER[:_MAX_AHEAD_BYTES]
_LINGER_S: Final = 2.0  # after a last answer, for the client to see it: §10.3
_LINGER_BYTES: Final = 1_048_576
_LOOK_S: Final = 1.0  # how often a slow body or a slow reader is looked at: §3.2
_TUNNEL_IDLE_S: Final = 3600.0  # without a byte either way
_STOP_PARKED_S: Final = 0.25  # a request already on its way to a parked connection is still served
_RESET: Final = struct.pack("ii", 1, 0)  # of SO_LINGER: closing resets, where it would end in order
_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


def _buffer(sizehint: int) -> memoryview:  # noqa: ARG001
    return _BUFFER


def _small_buffer(sizehint: int) -> memoryview:  # noqa: ARG001
    return _SMALL_BUFFER


class ClientConnection(asyncio.BufferedProtocol):
    """See the module.

    `asker` is who the peer is by address; `kept` are bytes read and not yet used; `outbox` is there while the client does not
    take its answer as fast as it comes; `dropped` counts what it sent after its last answer; `ended` says that it will send no
    more.
    """

    __slots__ = (
        "_listener",
        "asker",
        "client_full",
        "deadline_at",
        "dropped",
        "ended",
        "exchange",
        "get_buffer",
        "kept",
        "opened_at",
        "outbox",
        "paused",
        "served",
        "state",
        "sweep_slot",
        "transport",
        "upstream_full",
    )

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        #: Shared functions, not methods: the transport keeps what it finds here, and a bound method each is 64 bytes.
        self.get_buffer = _small_buffer  # type: ignore[method-assign]
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.state = _FIRST_BYTE
        self.exchange: Exchange | None = None
        self.kept = b""
        self.asker: Client | None = None
        self.outbox: Outbox | None = None
        self.deadline_at = NEVER
        self.sweep_slot = -1
        self.opened_at = 0.0
        self.served = 0
        self.dropped = 0
        self.ended = False
        self.paused = False
        self.upstream_full = False
        self.client_full = False

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first byte."""
        self.transport = cast(asyncio.Transport, transport)
        self.opened_at = self._listener.turn_at
        self.deadline_at = clock.now() + self._listener.settings.first_byte_seconds
        self._listener.opened(self)

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read out of the shared buffer, and use it."""
        data = _BUFFER[:nbytes].tobytes()
        state = self.state
        if state is _PARKED or state is _FIRST_BYTE:
            self._read_head(data)
        elif state is _IN_SERVICE:
            self._read_in_service(data)
        elif state is _HEAD:
            self._read_head(self.kept + data, len(self.kept))
        elif state is _TUNNEL:
            self.deadline_at = clock.now() + _TUNNEL_IDLE_S
            if self.exchange is not None and self.exchange.upstream is not None:
                self.exchange.upstream.write(data)
        elif state is _LINGER:
            self.dropped += nbytes
            if self.dropped > _LINGER_BYTES:
                self._end(Event.DRAINED)

    def eof_received(self) -> bool:
        """The client sends no more. It counts as having left, unless bytes it sent before are still to be used."""
        if self.state is _TUNNEL and self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.write_eof()
            self._ends()
            return True
        if self._has_unused_bytes():
            self._ends()
            return True
        if self.state is _LINGER:
            self._end(Event.DRAINED)
        else:
            self._left()
        return False

    def _ends(self) -> None:
        """Go on without reading; only a reset tells now that the client is gone."""
        self.ended = True
        self._listener.hangups.watch(self, self._descriptor(), ended=True)

    def _has_unused_bytes(self) -> bool:
        """Whether what is kept may still be of use: the rest of a body, or a whole request."""
        if self.state is not _IN_SERVICE or self.exchange is None:
            return False
        return bool(self.kept) and (
            not self.exchange.body_complete or self.exchange.head.upgrade or _HEAD_END in self.kept
        )

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Let everything go that is still held."""
        self._left()
        self._listener.closed(self)

    def pause_writing(self) -> None:
        """The client takes no more of its answer for now."""
        self.client_full = True
        if self.state is _TUNNEL:
            if self.exchange is not None and self.exchange.upstream is not None:
                self.exchange.upstream.set_client_full(True)
            return
        now = clock.now()
        if self.outbox is None:
            self.outbox = self._new_outbox(now)
        self.outbox.floor.go_on(now)
        self.deadline_at = now + _LOOK_S

    def resume_writing(self) -> None:
        """It does again."""
        self.client_full = False
        now = clock.now()
        if self.state is _TUNNEL:
            self.deadline_at = now + _TUNNEL_IDLE_S
            if self.exchange is not None and self.exchange.upstream is not None:
                self.exchange.upstream.set_client_full(False)
        elif self.outbox is not None:
            self.outbox.floor.pause(now)
            self.outbox.pump()

    # From the outbox.

    def outbox_has_room(self) -> None:
        """More of the answer may be kept."""
        if self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.set_client_full(False)

    def outbox_drained(self) -> None:
        """The client has taken what was kept for it."""
        outbox = cast(Outbox, self.outbox)
        if self.state is _IN_SERVICE:
            self.deadline_at = NEVER
            if outbox.closes is None:
                return  # the answer goes on
        self.outbox = None
        outbox.end()
        now = clock.now()
        if self.state is _IN_SERVICE:
            self._finish(now, close=bool(outbox.closes))
        elif self.state is _LINGER:
            self.deadline_at = now + _LINGER_S
        elif self.state is _PARKED:
            self.deadline_at = self._listener.parked_until
            self._go_on()

    def outbox_lost(self) -> None:
        """A part of the answer cannot be read again: the client must be able to tell."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.left(clock.now())
        self._reset()

    # From the sweep, the watcher and the listener.

    def deadline_passed(self, now: float) -> None:
        """Act on a deadline as the table says."""
        state = self.state
        if state is _CLOSED:
            self.transport.abort()
        elif state is _HEAD:
            self.state = next_state(state, Event.DEADLINE)
            self.refuse(Reason.HEAD_TIMEOUT)
        elif state is _TUNNEL or state is _FIRST_BYTE:
            self._end(Event.DEADLINE)
        elif self.client_full or self.transport.get_write_buffer_size():
            self._look_at_reader(now)
        elif state is _IN_SERVICE:
            self._look_at_body(now)
        else:
            self._end(Event.DEADLINE)

    def _look_at_reader(self, now: float) -> None:
        """End a client that takes its answer too slowly."""
        if self.outbox is None:
            self.outbox = self._new_outbox(now)
        elif self.outbox.too_slow(now):
            self._end(Event.DEADLINE)
            return
        self.deadline_at = now + _LOOK_S

    def _new_outbox(self, now: float) -> Outbox:
        principal = None if self.exchange is None else self.exchange.principal
        return Outbox(self, self._listener.pipeline.bodies, principal, now)

    def _look_at_body(self, now: float) -> None:
        """Refuse a body that comes too slowly; our own pauses do not count."""
        exchange = self.exchange
        if exchange is None or exchange.body is None or not exchange.body.left:
            self.deadline_at = NEVER
            return
        self.deadline_at = now + _LOOK_S
        if self._listener.pipeline.body_too_slow(exchange, now):
            exchange.left(now)
            if exchange.answer_began:
                self.cut()
            else:
                self.refuse(Reason.BODY_TIMEOUT)

    def hung_up(self, *, gone: bool, unread_bytes: int) -> None:
        """While we do not read: the client is gone, or sends no more than what lies in the kernel."""
        body = None if self.exchange is None else self.exchange.body
        if not gone and body is not None and body.left:
            # All of the body may have arrived; its end is seen when it is read.
            if body.left == CHUNKED or body.left <= unread_bytes + len(self.kept):
                return
        elif not gone and (self.kept or unread_bytes) and len(self.kept) < _MAX_AHEAD_BYTES:
            return
        self._left()

    def stop(self, now: float) -> None:
        """The process is stopping: this connection ends with what it is doing, a parked one at once."""
        self.state = next_state(self.state, Event.STOP)
        if self.state in (_PARKED, _FIRST_BYTE):
            self.deadline_at = min(self.deadline_at, now + _STOP_PARKED_S)

    def stop_now(self) -> None:
        """The time for a graceful end is over."""
        if self.state is _IN_SERVICE and self.exchange is not None and not self.exchange.answer_began:
            self.exchange.left(clock.now())
            self.refuse(Reason.STOPPING)
        self._watch_no_longer()
        self.transport.close()

    def stop_at_once(self) -> None:
        """Nobody waits any longer for what is still to be taken."""
        self._watch_no_longer()
        self.transport.abort()

    # ClientPort, for the exchange.

    def write(self, data: bytes) -> None:
        """Send to the client, or keep it while it takes no more."""
        outbox = self.outbox
        if outbox is None or (not self.client_full and outbox.is_empty):
            self.transport.write(data)
        elif not outbox.put(data) and self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.set_client_full(True)

    def body_wanted(self) -> None:
        """Tell a client that waits for it to go on, and use what it sent already."""
        exchange = cast(Exchange, self.exchange)
        body = cast(RequestBody, exchange.body)
        body.wanted = True
        if body.left > _MAX_AHEAD_BYTES:
            self._read_into(_buffer)
        if exchange.head.fields.expects_continue and not self.kept:
            self.transport.write(_CONTINUE)
        if self.kept:
            data, self.kept = self.kept, b""
            self._read_in_service(data)
        if self.exchange is exchange and body.left:
            if self.ended:
                self._left()  # the rest of the body will never come
                return
            now = clock.now()
            body.floor = self._listener.pipeline.body_floor(exchange, now)
            self.deadline_at = now + _LOOK_S
        self._update_reading()

    def must_close(self) -> bool:
        """Whether this answer is the last."""
        listener = self._listener
        exchange = cast(Exchange, self.exchange)
        return (
            self.served >= listener.max_requests
            or not exchange.head.fields.keep_alive
            or listener.stopping
            or exchange.started_at - self.opened_at >= listener.max_age_s
            or (self.ended and not self.kept)
        )

    def answered(self, now: float, *, close: bool) -> None:
        """The answer is complete: go on once the client has taken what was kept of it."""
        if self.outbox is not None and not self.outbox.is_empty:
            self.outbox.finish(close=close)
        else:
            self._finish(now, close=close)

    def _finish(self, now: float, *, close: bool) -> None:
        """All of the answer is written: park, serve what was sent ahead, or end."""
        exchange, self.exchange = self.exchange, None
        listener = self._listener
        if listener.logs_all:
            listener.answered(cast(Exchange, exchange))
        if close:
            self._linger()
            return
        self.state = next_state(self.state, _ANSWERED)
        if self.get_buffer is _buffer:
            self._read_into(_small_buffer)
        self.upstream_full = False
        self.deadline_at = now + _LOOK_S if self.client_full else listener.parked_until
        if self.kept or self.paused or self.client_full:
            self._go_on()

    def refuse(self, reason: Reason, retry_after_s: float | None = None) -> None:
        """Answer by ourselves. The connection lives on where the request is wholly read and framing allows."""
        exchange = self.exchange
        close = exchange is None or self.must_close() or not exchange.body_complete
        self.transport.write(self._listener.refusal(reason, exchange, retry_after_s, close=close))
        if exchange is None:
            self._linger()
        else:
            self.answered(clock.now(), close=close)

    def cut(self) -> None:
        """The answer broke off in the middle. Where its end is the connection's, only a reset tells."""
        exchange, self.exchange = cast(Exchange, self.exchange), None
        if self.state is not _TUNNEL and self._listener.logs_all:
            self._listener.answered(exchange)
        if exchange.closes or self.outbox is not None:
            self._reset()
        else:
            self._watch_no_longer()
            self.transport.close()
            self.state = next_state(self.state, Event.LEFT)
            self.deadline_at = clock.now() + _LINGER_S

    def _reset(self) -> None:
        self._watch_no_longer()
        self._drop_outbox()
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
        self.state = next_state(self.state, Event.LEFT)
        self.deadline_at = clock.now() + _LINGER_S

    def tunnel_began(self) -> None:
        """Bytes pass both ways from here on; those the client sent ahead first."""
        self.state = next_state(self.state, Event.UPGRADED)
        self.deadline_at = clock.now() + _TUNNEL_IDLE_S
        exchange = cast(Exchange, self.exchange)
        if self._listener.logs_all:
            self._listener.answered(exchange)
        data, self.kept = self.kept, b""
        if data and exchange.upstream is not None:
            exchange.upstream.write(data)
        if self.ended and exchange.upstream is not None:
            exchange.upstream.write_eof()
        self._update_reading()

    def tunnel_bytes(self, data: bytes) -> None:
        """Send bytes of a tunnel to the client; either side's bytes keep it alive."""
        if not self.client_full:
            self.deadline_at = clock.now() + _TUNNEL_IDLE_S
        self.transport.write(data)

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001
        """Read no more than the homeserver's side can take."""
        self.upstream_full = full
        self._update_reading()

    # Reading.

    def _read_head(self, data: bytes, seen: int = 0) -> None:
        """Serve the request whose head is whole, refuse it, or keep what there is; the first `seen` bytes are known."""
        listener = self._listener
        start, end = head_end(data, seen)
        if end < 0 or end > listener.max_head_bytes:
            self._keep_partial_head(data, seen)
            return
        self.kept = data[end:]
        try:
            head = parse_request_head(
                data[start:end], max_fields=listener.max_fields, max_target_bytes=listener.max_target_bytes
            )
        except Refused as refused:
            self.refuse(refused.reason)
            return
        self.state = next_state(self.state, _HEAD_COMPLETE)
        self.deadline_at = NEVER
        self.served += 1
        now = clock.now()
        pipeline = listener.pipeline
        self.exchange = exchange = pipeline.begin(self, head, cast(Client, self.asker), now)
        pipeline.admit(exchange, now)
        if self.kept and self.exchange is exchange:
            self._update_reading()

    def _keep_partial_head(self, data: bytes, seen: int) -> None:
        if self.state is not _HEAD:
            self.state = next_state(self.state, _BYTES)
            self.deadline_at = clock.now() + self._listener.settings.head_seconds
        self.kept = data
        settings = self._listener.settings
        reason = why_hopeless(
            data, seen, max_head_bytes=settings.max_head_bytes, max_target_bytes=settings.max_target_bytes
        )
        if reason is not None:
            self.refuse(reason)

    def _read_into(self, buffer: Callable[[int], memoryview]) -> None:
        self.get_buffer = buffer  # type: ignore[method-assign, assignment]
        if not self.transport.is_closing():
            self.transport.set_protocol(self)  # which looks for `get_buffer` anew

    def _read_in_service(self, data: bytes) -> None:
        """Bytes while a request is served: its body, or what comes after it."""
        exchange = cast(Exchange, self.exchange)
        body = exchange.body
        if body is not None and body.left and body.wanted:
            try:
                data = body.take(data)
            except BadChunkError:
                self.kept = b""
                exchange.left(clock.now())
                if exchange.answer_began:
                    self.cut()
                else:
                    self.refuse(Reason.BAD_CHUNK)
                return
        if data and self.exchange is exchange:
            self.kept += data
            self._update_reading()
        elif data and self.state is _PARKED:
            self._read_head(data)  # the body's end was the answer's, too

    def _go_on(self) -> None:
        """Parked: serve what was sent ahead, but nothing for a client that has not taken its last answer."""
        if self.kept and not self.client_full:
            data, self.kept = self.kept, b""
            self._read_head(data)
            if self.ended and self.state is _HEAD:
                self._end(Event.DRAINED)  # the end of what was sent ahead, and no whole request
        if self.paused or self.client_full:
            self._update_reading()

    def _update_reading(self) -> None:
        """Read, unless nobody could take what is read."""
        exchange = self.exchange
        if self.ended:
            return  # there is nothing to read
        pause = self.upstream_full or (self.client_full and self.state is _PARKED)
        if exchange is not None and self.state is _IN_SERVICE:
            pause = pause or len(self.kept) >= _MAX_AHEAD_BYTES
            waits_for_101 = exchange.head.upgrade and not exchange.answer_began
            pause = pause or (waits_for_101 and len(self.kept) > 0)
        if pause == self.paused or self.transport.is_closing():
            return
        self.paused = pause
        if exchange is not None and exchange.body is not None and exchange.body.floor is not None:
            exchange.body.floor.set_paused(pause, clock.now())
        if pause:
            self.transport.pause_reading()
            self._listener.hangups.watch(self, self._descriptor())
        else:
            self._listener.hangups.forget(self)
            self.transport.resume_reading()

    # Ending.

    def _linger(self) -> None:
        """Close so that the client sees the answer: half-close, drop what still comes, then close."""
        self.state = next_state(self.state, Event.ANSWERED_LAST)
        self.deadline_at = clock.now() + _LINGER_S
        self.kept = b""
        self.upstream_full = False
        self._update_reading()
        if self.ended:
            self.transport.close()
        elif not self.transport.is_closing() and self.transport.can_write_eof():
            self.transport.write_eof()

    def _left(self) -> None:
        """The client is gone: nothing of its request goes on."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            self._listener.left(exchange, in_tunnel=self.state is _TUNNEL)
            exchange.left(clock.now())
        self._end(Event.LEFT)

    def _end(self, event: Event) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.left(clock.now())
        self.state = next_state(self.state, event)
        self.kept = b""
        self._watch_no_longer()
        self._drop_outbox()
        if event is Event.DRAINED:
            self.deadline_at = clock.now() + _LINGER_S
            self.transport.close()
        else:
            self.transport.abort()

    def _drop_outbox(self) -> None:
        if self.outbox is not None:
            self.outbox.end()
            self.outbox = None

    def _watch_no_longer(self) -> None:
        """Before a paused connection closes: its descriptor may be another's a moment later."""
        if self.paused or self.ended:
            self.paused = False
            self._listener.hangups.forget(self)

    def _descriptor(self) -> int:
        descriptor: int = self.transport.get_extra_info("socket").fileno()
        return descriptor
