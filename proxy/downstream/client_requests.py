"""What a client asks for on its connection: heads, bodies, what is sent ahead, and the end of it all.

One request is served at a time; what the client sends ahead is kept up to 16 KiB, then its socket is left alone and watched
for a hang-up. How a request is answered is `connection.ClientConnection`'s, which is built on this.
"""

from typing import TYPE_CHECKING, Final, cast

from proxy import clock
from proxy.downstream.client_socket import (
    BUFFER,
    LOOK_S,
    MAX_AHEAD_BYTES,
    TUNNEL_IDLE_S,
    ClientSocket,
    large_buffer,
)
from proxy.errors import Reason, Refused
from proxy.http1.chunked import BadChunkError
from proxy.http1.deadlines import NEVER
from proxy.http1.life_cycle import Event, State, next_state
from proxy.http1.partial_head import head_end, why_hopeless
from proxy.http1.request_head import CHUNKED, parse_request_head
from proxy.identity.client_key import Client
from proxy.matrix.endpoint import Poll
from proxy.upstream.exchange import Exchange
from proxy.upstream.request_body import RequestBody

if TYPE_CHECKING:
    from proxy.downstream.listener import Listener

# Members of an enumeration are slow to look up on it, and these are looked up for every request.
_FIRST_BYTE, _HEAD, _IN_SERVICE, _PARKED, _LINGER, _TUNNEL = tuple(State)[3:-1]
_NO_POLL: Final = Poll.NONE
_BYTES, _HEAD_COMPLETE = Event.BYTES, Event.HEAD_COMPLETE
_HEAD_END: Final = b"\r\n\r\n"
_EMPTY_LINE: Final = (b"\r", b"\r\n")
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientRequests(ClientSocket):
    """See the module. `asker` is who the peer is by address; `served` counts its requests.

    `in_turn`: a request that it sent ahead is served when its turn comes (`ahead.Ahead`).
    """

    __slots__ = ("asker", "in_turn", "opened_at", "served", "upstream_full")

    def __init__(self, listener: "Listener", state: State = _FIRST_BYTE) -> None:
        super().__init__(listener, state)
        self.asker: Client | None = None
        self.opened_at = 0.0
        self.served = 0
        self.upstream_full = False
        self.in_turn = False

    # How it is answered.

    def refuse(self, reason: Reason, retry_after_s: float | None = None) -> None:
        """Answer by ourselves."""
        raise NotImplementedError

    def cut(self) -> None:
        """The answer broke off in the middle."""
        raise NotImplementedError

    # Reading.

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read out of the shared buffer, and use it."""
        data = BUFFER[:nbytes].tobytes()
        state = self.state
        if (state is _PARKED and not self.kept) or state is _FIRST_BYTE:
            self._read_head(data)
        elif state is _IN_SERVICE:
            self._read_in_service(data)
        elif self.in_turn and state is _PARKED:
            self.kept += data
            self._update_reading()
        elif state is _HEAD or state is _PARKED:
            self._read_head(self.kept + data, len(self.kept))
        elif state is _TUNNEL:
            self.deadline_at = clock.now() + TUNNEL_IDLE_S
            if self.exchange is not None and self.exchange.upstream is not None:
                self.exchange.upstream.write(data)
        elif state is _LINGER:
            self.drop(nbytes)

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
        if self.exchange is exchange and self.ended and self._waits_long():
            self._left()
            return
        if self._serves(exchange) and body.left:
            if self.ended:
                self._left()  # the rest of the body will never come
                return
            now = clock.now()
            body.floor = self._listener.pipeline.body_floor(exchange, now)
            body.floor.set_paused(self.paused, now)
            self.deadline_at = now + LOOK_S
        self._update_reading()

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001  (the port's signature)
        """Read no more than the homeserver's side can take."""
        self.upstream_full = full
        self._update_reading()

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
        # As a connection it has all that is asked of a port.
        self.exchange = exchange = pipeline.begin(self, head, cast(Client, self.asker), now)  # type: ignore[arg-type]
        pipeline.admit(exchange, now)
        if self.kept and self._serves(exchange):
            self._update_reading()

    def _serves(self, exchange: Exchange) -> bool:
        """Whether this is still what it serves; asked after a call that may have ended it."""
        return self.exchange is exchange

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
        if data and self._serves(exchange):
            self.kept += data
            self._update_reading()
        elif data and self.state is _PARKED:
            self.kept = data  # the body's end was the answer's, too
            self._go_on()

    def _go_on(self) -> None:
        """Parked: what was sent ahead is served next, but not for a client that has not taken its last answer."""
        if self.kept and not self.client_full and self.state is _PARKED:
            if not self.in_turn:
                self.in_turn = True
                self._listener.ahead.append(self)
            return
        self._go_on_reading()

    def serve_ahead(self) -> None:
        """Serve one request that was sent ahead; what is behind it has a turn of its own."""
        self.in_turn = False
        if self.kept and not self.client_full and self.state is _PARKED and not self.transport.is_closing():
            data, self.kept = self.kept, b""
            self._read_head(data)
        if not self.in_turn:
            self._go_on_reading()

    def _go_on_reading(self) -> None:
        """Read on after an answer, or end where the client said that it sends no more."""
        if self.ended and self.state is _HEAD:
            self._end(Event.DRAINED)  # the end of what was sent ahead, and no whole request
        elif self.ended and self._waits_long():
            self._left()
        elif self.paused or self.client_full:
            self._update_reading()

    def _update_reading(self) -> None:
        """Read, unless nobody could take what is read."""
        exchange = self.exchange
        pause = self.upstream_full or (self.client_full and self.state is _PARKED)
        pause = pause or (self.in_turn and len(self.kept) >= MAX_AHEAD_BYTES)
        if exchange is not None and self.state is _IN_SERVICE:
            pause = pause or len(self.kept) >= MAX_AHEAD_BYTES
            waits_for_101 = exchange.head.upgrade and not exchange.answer_began
            pause = pause or (waits_for_101 and len(self.kept) > 0)
        if pause != self.paused:
            if exchange is not None and exchange.body is not None and exchange.body.floor is not None:
                exchange.body.floor.set_paused(pause, clock.now())
            self._set_paused(pause)

    # The end of what it sends.

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
        if self.in_turn:
            return True
        if self.state is not _IN_SERVICE or self.exchange is None:
            return False
        if not self.exchange.body_complete:
            return bool(self.kept)
        return not self._waits_long() and _HEAD_END in self.kept

    def _waits_long(self) -> bool:
        """Whether a long poll or an upgrade waits for its answer: its place is not kept for what lies behind it."""
        exchange = self.exchange
        return (
            exchange is not None
            and exchange.body_complete
            and not exchange.answer_began
            and (exchange.head.upgrade or exchange.endpoint.poll is not _NO_POLL)
        )

    def hung_up(self, *, gone: bool, unread_bytes: int) -> None:
        """While we do not read: the client is gone, or sends no more than what lies in the kernel."""
        if gone or not self._may_go_on(unread_bytes):
            self._left()

    def _may_go_on(self, unread_bytes: int) -> bool:
        """Tell whether what is kept and unread may be of use, its end being seen when it is read."""
        if self.state is _TUNNEL or self.in_turn:
            return True
        body = None if self.exchange is None else self.exchange.body
        if body is not None and body.left:
            return body.left == CHUNKED or body.left <= unread_bytes + len(self.kept)
        return not self._waits_long() and bool(self.kept or unread_bytes) and len(self.kept) < MAX_AHEAD_BYTES
