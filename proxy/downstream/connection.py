"""A client's connection: has its requests answered, one at a time, and keeps to the table in `http1.life_cycle`.

A parked connection is this object and its transport, nothing else: no parser, buffer, task or timer. What is read is
`client_requests`', how bytes come in and go out `client_socket`'s.
"""

from typing import TYPE_CHECKING, ClassVar, Final, cast

from proxy import clock
from proxy.downstream.client_requests import ClientRequests
from proxy.downstream.client_socket import LOOK_S, TUNNEL_IDLE_S, small_buffer
from proxy.downstream.outbox import Outbox
from proxy.errors import Reason
from proxy.http1.deadlines import NEVER
from proxy.http1.life_cycle import BEFORE_HTTP, Event, State, next_state
from proxy.identity.client_key import Client
from proxy.upstream.exchange import Exchange

if TYPE_CHECKING:
    import asyncio


# Members of an enumeration are slow to look up on it, and these are looked up for every request.
_FIRST_BYTE, _HEAD, _IN_SERVICE, _PARKED, _LINGER, _TUNNEL, _CLOSED = tuple(State)[3:]
_BYTES, _HEAD_COMPLETE, _ANSWERED = Event.BYTES, Event.HEAD_COMPLETE, Event.ANSWERED
_DEADLINE = Event.DEADLINE
_STOP_OPENING_S: Final = 1.0  # who has just connected is about to ask, and may be far away
_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientConnection(ClientRequests):
    """See the module."""

    __slots__ = ()

    #: What the client speaks to us, as X-Forwarded-Proto names it.
    scheme: ClassVar[bytes] = b"http"

    # From the event loop.

    def connection_made(self, transport: "asyncio.BaseTransport") -> None:
        """Begin to wait for the first byte."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(
            high=0
        )  # what it does not send at once is kept where it is charged
        self.opened_at = self._listener.turn_at
        settings = self._listener.settings
        within_s = settings.tls_hello_seconds if self.state is State.HELLO else settings.first_byte_seconds
        self._allow(within_s)
        self._listener.admission.opened(self)

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
        asker = self.asker
        address = None if asker is None else asker.key
        self.write(self._listener.refusal(reason, exchange, retry_after_s, close=close, address=address))
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
