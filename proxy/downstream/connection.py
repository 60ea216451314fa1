"""A client's connection: reads heads and bodies, has them answered, and keeps to the table in `http1.life_cycle`.

A parked connection is this object and its transport, nothing else: no parser, buffer, task or timer. One request is served
at a time; what the client sends ahead is kept up to 16 KiB, then its socket is left alone and watched for a hang-up.
How bytes come in and go out is `client_socket`'s.
"""

from typing import TYPE_CHECKING, ClassVar, Final, cast

from proxy import clock
from proxy.downstream.client_socket import (
    BUFFER,
    LOOK_S,
    MAX_AHEAD_BYTES,
    TUNNEL_IDLE_S,
    ClientSocket,
    large_buffer,
    small_buffer,
)
from proxy.downstream.outbox import Outbox
from proxy.errors import Reason, Refused
from proxy.http1.chunked import BadChunkError
from proxy.http1.deadlines import NEVER
from proxy.http1.life_cycle import BEFORE_HTTP, Event, State, next_state
from proxy.http1.partial_head import head_end, why_hopeless
from proxy.http1.request_head import CHUNKED, parse_request_head
from proxy.identity.client_key import Client
from proxy.upstream.exchange import Exchange
from proxy.upstream.request_body import RequestBody

if TYPE_CHECKING:
    import asyncio

    from proxy.downstream.listener import Listener

# Members of an enumeration are slow to look up on it, and these are looked up for every request.
_FIRST_BYTE, _HEAD, _IN_SERVICE, _PARKED, _LINGER, _TUNNEL, _CLOSED = tuple(State)[3:]
_BYTES, _HEAD_COMPLETE, _ANSWERED = Event.BYTES, Event.HEAD_COMPLETE, Event.ANSWERED
_DEADLINE = Event.DEADLINE
_STOP_OPENING_S: Final = 1.0  # who has just connected is about to ask, and may be far away
_HEAD_END: Final = b"\r\n\r\n"
_EMPTY_LINE: Final = (b"\r", b"\r\n")
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientConnection(ClientSocket):
    """See the module. `asker` is who the peer is by address; `served` counts its requests."""

    __slots__ = ("_going_on", "asker", "opened_at", "served", "upstream_full")

    #: What the client speaks to us, as X-Forwarded-Proto names it.
    scheme: ClassVar[bytes] = b"http"

    def __init__(self, listener: "Listener", state: State = _FIRST_BYTE) -> None:
        super().__init__(listener, state)
        self.asker: Client | None = None
        self.opened_at = 0.0
        self.served = 0
        self.upstream_full = False
        self._going_on = False

    # From the event loop.

    def connection_made(self, transport: "asyncio.BaseTransport") -> None:
        """Begin to wait for the first byte."""
        self.transport = cast("asyncio.Transport", transport)
        self.opened_at = self._listener.turn_at
        settings = self._listener.settings
        within_s = settings.tls_hello_seconds if self.state is State.HELLO else settings.first_byte_seconds
        self._allow(within_s)
        self._listener.admission.opened(self)

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read out of the shared buffer, and use it."""
        data = BUFFER[:nbytes].tobytes()
        state = self.state
        if (state is _PARKED and not self.kept) or state is _FIRST_BYTE:
            self._read_head(data)
        elif state is _IN_SERVICE:
            self._read_in_service(data)
        elif state is _HEAD or state is _PARKED:
            self._read_head(self.kept + data, len(self.kept))
        elif state is _TUNNEL:
            self.deadline_at = clock.now() + TUNNEL_IDLE_S
            if self.exchange is not None and self.exchange.upstream is not None:
                self.exchange.upstream.write(data)
        elif state is _LINGER:
            self.drop(nbytes)

    def eof_received(self) -> bool:
        """The client sends no more. It counts as having left, unless bytes it sent before are still to be used."""
        if self.state is _TUNNEL and self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.write_eof()
            self._go_on_without_reading()
            return True
        if self._has_unused_bytes():
            self._go_on_without_reading()
            return True
        if self.state is _LINGER:
            self._end(Event.DRAINED)
        else:
            self._left()
        return False

    def _has_unused_bytes(self) -> bool:
        """Whether what is kept may still be of use: the rest of a body, or a whole request."""
        if self.state is not _IN_SERVICE or self.exchange is None:
            return False
        return bool(self.kept) and (
            not self.exchange.body_complete or self.exchange.head.upgrade or _HEAD_END in self.kept
        )

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (how it was lost makes no difference)
        """Let everything go that is still held."""
        self._left()
        self._listener.admission.closed(self)

    # From what stands before HTTP.

    def begin_tls(self) -> None:
        """The PROXY header is read; a ClientHello has to follow."""
        self._advance(Event.TLS_BEGINS, self._listener.settings.tls_hello_seconds)

    def hello_complete(self) -> None:
        """It came; the handshake has a time of its own, with the wait for its beginning."""
        self._advance(Event.HELLO_COMPLETE, self._listener.settings.tls_handshake_seconds)

    def begin_http(self, *, anew: bool) -> None:
        """The next byte is a request's; `anew`: it has all of its time, or what is left of it."""
        self._advance(Event.OPENED, self._listener.settings.first_byte_seconds if anew else None)

    def _advance(self, event: Event, within_s: float | None) -> None:
        self.state = next_state(self.state, event)
        if within_s is not None:
            self._allow(within_s)

    def _allow(self, within_s: float) -> None:
        """Give the client time for what comes next, little if the process is stopping."""
        self.deadline_at = clock.now() + (
            min(within_s, _STOP_OPENING_S) if self._listener.stopping else within_s
        )

    # From the sweep, the watcher, the outbox and the listener.

    def deadline_passed(self, now: float) -> None:
        """Act on a deadline as the table says."""
        state = self.state
        if state is _CLOSED:
            self.transport.abort()
        elif state is _HEAD:
            self.state = next_state(state, _DEADLINE)
            self.refuse(Reason.HEAD_TIMEOUT)
        elif state is _TUNNEL or state in BEFORE_HTTP:
            self._end(_DEADLINE)
        elif self.client_full or self.transport.get_write_buffer_size():
            self._look_at_reader(now)
        elif state is _IN_SERVICE:
            self._look_at_body(now)
        elif state is _PARKED:
            self.end_parked()
        else:
            self._end(_DEADLINE)

    def _look_at_body(self, now: float) -> None:
        """Refuse a body that comes too slowly; our own pauses do not count."""
        exchange = self.exchange
        if exchange is None or exchange.body is None or not exchange.body.left:
            self.deadline_at = NEVER
            return
        self.deadline_at = now + LOOK_S
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
        elif not gone and (self.kept or unread_bytes) and len(self.kept) < MAX_AHEAD_BYTES:
            return
        self._left()

    def outbox_drained(self) -> None:
        """The client has taken what was kept for it."""
        now = clock.now()
        if self.state is _IN_SERVICE:
            closes = cast(Outbox, self.outbox).closes
            if closes is None:
                self.deadline_at = now + LOOK_S  # the answer goes on, and so may a body
                return
            self._finish(now, close=closes)
            return
        self._drop_outbox()
        if self.state is _LINGER:
            self._linger_on()
        elif self.state is _PARKED:
            self.deadline_at = self._parked_until()
            self._go_on()

    def turn_away(self, *, in_words: bool = False) -> None:
        """There is no place for it, or another needs its place more; `in_words`: something is written that says why."""
        self._end(Event.DRAINED if in_words else Event.TURNED_AWAY)

    def stop(self, now: float) -> None:
        """The process is stopping: this connection ends with what it is doing, a parked one when all others have."""
        self.state = next_state(self.state, Event.STOP)
        if self.state in BEFORE_HTTP:
            self.deadline_at = min(self.deadline_at, now + _STOP_OPENING_S)

    def stop_now(self) -> None:
        """The time for a graceful end is over."""
        exchange = self.exchange
        if self.state is _IN_SERVICE and exchange is not None:
            exchange.left(clock.now())
            if exchange.answer_began:
                self.cut()
                return
            self.refuse(Reason.STOPPING)
        self._watch_no_longer()
        self.transport.close()

    # ClientPort, for the exchange; `write` is the socket's.

    def body_wanted(self) -> None:
        """Tell a client that waits for it to go on, and use what it sent already."""
        exchange = cast(Exchange, self.exchange)
        body = cast(RequestBody, exchange.body)
        body.wanted = True
        if body.left > MAX_AHEAD_BYTES:
            self._read_into(large_buffer)
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
            body.floor.set_paused(self.paused, now)
            self.deadline_at = now + LOOK_S
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
        self.upstream_full = False
        if self.outbox is not None and not self.client_full:
            self._drop_outbox()
        if close:
            self._linger()
            return
        self.state = next_state(self.state, _ANSWERED)
        if self.place is not None:
            self.place.waits()
        if self.get_buffer is not small_buffer:
            self._read_into(small_buffer)
        self.deadline_at = now + LOOK_S if self.client_full else self._parked_until()
        if self.kept or self.paused or self.client_full:
            self._go_on()

    def _parked_until(self) -> float:
        listener = self._listener
        return listener.trusted_parked_until if cast(Client, self.asker).trusted else listener.parked_until

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
            self.state = next_state(self.state, Event.LEFT)
            self._close()

    def tunnel_began(self) -> None:
        """Bytes pass both ways from here on; those the client sent ahead first."""
        self.state = next_state(self.state, Event.UPGRADED)
        self.deadline_at = clock.now() + TUNNEL_IDLE_S
        if self.outbox is not None and not self.outbox.is_empty:
            self.outbox_lost()  # it did not even take what came before
            return
        self._drop_outbox()
        exchange = cast(Exchange, self.exchange)
        if self._listener.logs_all:
            self._listener.answered(exchange)
        data, self.kept = self.kept, b""
        upstream = exchange.upstream
        if upstream is not None:
            upstream.set_client_full(self.client_full)
            if data:
                upstream.write(data)
            if self.ended:
                upstream.write_eof()
        self._update_reading()

    def tunnel_bytes(self, data: bytes) -> None:
        """Send bytes of a tunnel to the client; either side's bytes keep it alive."""
        if not self.client_full:
            self.deadline_at = clock.now() + TUNNEL_IDLE_S
        self.transport.write(data)

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001  (the port's signature)
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
        if self.place is not None:
            self.place.serves()
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
        if self.state is _PARKED and data in _EMPTY_LINE and not self.ended:
            self.kept = data  # no request begins with it (RFC 9112 §2.2): still parked
            return
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
            self.kept = data  # the body's end was the answer's, too
            self._go_on()

    def _go_on(self) -> None:
        """Parked: serve what was sent ahead, but nothing for a client that has not taken its last answer.

        A request may be answered before this returns, which asks for this again: such a call leaves it to the one that is
        at work, or a hundred of them would be as many calls deep.
        """
        if self._going_on:
            return
        self._going_on = True
        try:
            while self.kept and not self.client_full and self.state is _PARKED:
                data, self.kept = self.kept, b""
                self._read_head(data)
                if self.kept is data:
                    break  # no request yet
        finally:
            self._going_on = False
        if self.ended and self.state is _HEAD:
            self._end(Event.DRAINED)  # the end of what was sent ahead, and no whole request
        elif self.paused or self.client_full:
            self._update_reading()

    def _update_reading(self) -> None:
        """Read, unless nobody could take what is read."""
        exchange = self.exchange
        pause = self.upstream_full or (self.client_full and self.state is _PARKED)
        if exchange is not None and self.state is _IN_SERVICE:
            pause = pause or len(self.kept) >= MAX_AHEAD_BYTES
            waits_for_101 = exchange.head.upgrade and not exchange.answer_began
            pause = pause or (waits_for_101 and len(self.kept) > 0)
        if pause != self.paused:
            if exchange is not None and exchange.body is not None and exchange.body.floor is not None:
                exchange.body.floor.set_paused(pause, clock.now())
            self._set_paused(pause)
