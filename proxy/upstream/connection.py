"""A connection to the homeserver: idle, or running one exchange. It reads answers as strictly as requests are read (§9.4).

Whatever goes wrong here is told to the exchange once, and the connection is never used again.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from proxy import clock
from proxy.errors import Reason
from proxy.http1.chunked import BadChunkError, ChunkedBody
from proxy.http1.deadlines import NEVER
from proxy.http1.fields import CHUNKED
from proxy.http1.response_head import (
    UNTIL_CLOSE,
    ResponseBrokenError,
    ResponseHead,
    parse_response_head,
)
from proxy.upstream.exchange import Exchange

if TYPE_CHECKING:
    from proxy.upstream.pool import Pool

_BUFFER: Final = memoryview(bytearray(196_608))  # a read is used up before the next begins
_TUNNEL_BUFFER: Final = _BUFFER[:16_384]
_MAX_HEAD_BYTES = 65_536
_MAX_INTERIM = 8  # answers with 1xx to one request; more is a flood
_VERSION: Final = b"HTTP/1."
_IN_HEAD: Final = -3  # of `_left`: no body is expected yet


def _large_buffer(sizehint: int) -> memoryview:  # noqa: ARG001  (the protocol's signature)
    """Give the one buffer that all connections share: what a slow client has to wait for stays small."""
    return _BUFFER


def _small_buffer(sizehint: int) -> memoryview:  # noqa: ARG001  (the protocol's signature)
    """Give a part of it: what a tunnel's client does not take is kept by its transport."""
    return _TUNNEL_BUFFER


class UpstreamConnection:
    """One place of the pool, from its connect to its end.

    A buffered protocol of the event loop by its methods, not by its base: so it can be compiled (ADR 21).
    """

    __slots__ = (
        "_chunks", "_head_bytes", "_interim", "_left", "_paused_at", "_pool", "_reusable", "deadline_at", "exchange",
        "get_buffer", "sweep_slot", "transport", "tunnel", "unsent", "used_before",
    )  # fmt: skip

    def __init__(self, pool: "Pool") -> None:
        self.get_buffer: Callable[[int], memoryview] = _large_buffer
        self._pool = pool
        self.exchange: Exchange | None = None
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.deadline_at = NEVER
        self.sweep_slot = -1
        self.used_before = False
        self.unsent = False
        self.tunnel = False
        self._head_bytes = b""
        self._left = _IN_HEAD
        self._chunks: ChunkedBody | None = None
        self._interim = 0
        self._reusable = False
        self._paused_at = 0.0

    def as_protocol(self) -> asyncio.BaseProtocol:
        """Give itself, as what the event loop takes it for."""
        return cast(asyncio.BaseProtocol, self)

    # From the pool.

    def begin(self, exchange: Exchange, now: float) -> None:
        """Run `exchange`; its deadline counts from now."""
        self.exchange = exchange
        self.deadline_at = now + exchange.deadline_s
        self._interim = 0
        exchange.upstream = self
        if exchange.body_complete and not exchange.head.upgrade:
            self.unsent = True
            self._pool.send_soon(self)
        else:
            self._send(exchange)

    def send(self) -> None:
        """Send the request that `begin` put off to the end of the turn, unless it was given up meanwhile."""
        if not self.unsent or self.transport.is_closing():
            return  # still unsent: `connection_lost` runs it elsewhere
        self.unsent = False
        if self.exchange is not None:
            self._send(self.exchange)

    def _send(self, exchange: Exchange) -> None:
        body = exchange.body
        if body is None:
            self.transport.write(exchange.wire_head)
        else:
            self.transport.write(exchange.wire_head + body.first())
            body.go_on()

    # UpstreamPort, for the exchange.

    def write(self, data: bytes) -> None:
        """Send to the homeserver."""
        self.transport.write(data)

    def write_eof(self) -> None:
        """Pass on the end of a tunnel's client."""
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def has_sent_all(self) -> bool:
        """Tell whether the kernel has all that was written."""
        return not self.unsent and not self.transport.get_write_buffer_size()

    def set_client_full(self, full: bool) -> None:  # noqa: FBT001 - the port's shape
        """Stop reading while the client cannot take more; that time is not the homeserver's."""
        if self.transport.is_closing() or full == bool(self._paused_at):
            return
        now = clock.now()
        if full:
            self._paused_at = now
            self.transport.pause_reading()
        else:
            self.deadline_at += now - self._paused_at
            self._paused_at = 0.0
            self.transport.resume_reading()

    def go_on_until(self, deadline_at: float) -> None:
        """The client is gone: the homeserver may take until then."""
        self.deadline_at = deadline_at

    def abandon(self) -> None:
        """Nobody wants the answer."""
        self.exchange = None
        if self.unsent and not self.transport.is_closing():
            self.unsent = False
            self._pool.release(self, clock.now())
        else:
            self.transport.abort()

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the pool books the connection when its connect task ends."""
        self.transport = cast(asyncio.Transport, transport)

    def buffer_updated(self, nbytes: int) -> None:
        """Read the answer."""
        data = _BUFFER[:nbytes].tobytes()
        exchange = self.exchange
        if exchange is None:
            self._pool.discard(self)  # an answer nobody asked for
        elif self.unsent:
            self.transport.abort()  # the same, a moment later; `connection_lost` runs the exchange elsewhere
        elif self.tunnel:
            exchange.client.tunnel_bytes(data)
        elif self._left == _IN_HEAD:
            self._read_head(exchange, data)
        else:
            self._read_body(exchange, b"", data)

    def eof_received(self) -> bool:
        """The homeserver sends no more: the end of an answer that has no other end, or of the connection."""
        if self.exchange is not None and self._left == UNTIL_CLOSE:
            self._finish(self.exchange, b"")
        elif self.exchange is None:
            self._pool.discard(self)
        elif not self.tunnel:
            self.transport.abort()  # closing would wait until it takes the rest of a request that it will not answer
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """Tell the pool, and whoever waits for an answer."""
        exchange, self.exchange = self.exchange, None
        self._pool.lost(self)
        if exchange is None:
            return
        if self.unsent:
            self._pool.resend(exchange)  # nothing of it was sent, so any method may go elsewhere
        elif self.tunnel or exchange.answer_began:
            exchange.fail(Reason.UPSTREAM_CLOSED, clock.now())
        elif not self._head_bytes and not self._interim and exchange.may_resend():
            self._pool.resend(exchange)
        else:
            now = clock.now()
            self._pool.note_failure(now)
            exchange.fail(Reason.UPSTREAM_CLOSED, now)

    def pause_writing(self) -> None:
        """The homeserver takes no more for now."""
        if self.exchange is not None:
            self.exchange.set_upstream_full(True)

    def resume_writing(self) -> None:
        """It does again."""
        if self.exchange is not None:
            self.exchange.set_upstream_full(False)

    def deadline_passed(self, now: float) -> None:
        """Idle too long, or an answer too late."""
        exchange = self.exchange
        if exchange is None:
            self._pool.discard(self)
        elif self._paused_at:
            # The client's slowness is the client's; its own deadline ends it.
            self.deadline_at = now + 1.0
            self._paused_at = now
        else:
            self._pool.note_broken(Reason.UPSTREAM_TIMEOUT, None)
            exchange.timed_out(now)

    # The answer.

    def _read_head(self, exchange: Exchange, data: bytes) -> None:
        seen = len(self._head_bytes)
        if seen:
            data = self._head_bytes + data
        while True:
            end = data.find(b"\r\n\r\n", seen - 3 if seen > 3 else 0)
            if end < 0:
                self._head_bytes = data
                if len(data) >= _MAX_HEAD_BYTES or b"\n\n" in data or not _may_be_answer(data):
                    self._break(exchange, Reason.UPSTREAM_BROKEN)
                return
            if end + 4 > _MAX_HEAD_BYTES:  # one read may hold more
                self._break(exchange, Reason.UPSTREAM_BROKEN)
                return
            request = exchange.head
            try:
                response = parse_response_head(data[: end + 4], method=request.method, minor=request.minor)
            except ResponseBrokenError as error:
                self._break(exchange, Reason.UPSTREAM_BROKEN, error)
                return
            data = data[end + 4 :]
            if seen:
                seen = 0
                self._head_bytes = b""
            if response.status >= 200:
                break
            if not self._interim_answer(exchange, response, data) or not data:
                return
        self._left = response.length
        self._chunks = ChunkedBody(decode=exchange.head.minor == 0) if self._left == CHUNKED else None
        self._reusable = response.keep_alive
        if self._pool.failing_since is not None:
            self._pool.note_answer()
        self._read_body(exchange, exchange.answer_head(response), data)

    def _interim_answer(self, exchange: Exchange, response: ResponseHead, beyond: bytes) -> bool:
        """Deal with a 1xx; tell whether an answer is still to come."""
        self._interim += 1
        if response.status == 101:
            if exchange.head.upgrade and response.upgrade:
                self.tunnel = True
                self.get_buffer = _small_buffer
                self.transport.set_protocol(self.as_protocol())  # which looks for `get_buffer` anew
                self.deadline_at = NEVER  # the client's connection has the tunnel's deadline
                exchange.switch(response, beyond, clock.now())
                return False
        elif self._interim <= _MAX_INTERIM:
            if response.status != 100:
                exchange.interim(response)
            return True
        self._break(exchange, Reason.UPSTREAM_BROKEN)
        return False

    def _read_body(self, exchange: Exchange, head: bytes, data: bytes) -> None:
        """Pass on what belongs to the body, behind `head` in one write; end the exchange with its last byte."""
        left, chunks = self._left, self._chunks
        beyond = b""
        if left >= 0:
            size = len(data)
            if size > left:
                data, beyond = data[:left], data[left:]
                size = left
            left -= size
            self._left = left
        elif chunks is not None:
            whole = data
            try:
                data, beyond_bytes = chunks.feed(data)
            except BadChunkError as error:
                if head:
                    exchange.client.write(head)
                self._break(exchange, Reason.UPSTREAM_BROKEN, error)
                return
            beyond = whole[len(whole) - beyond_bytes :] if beyond_bytes else b""
            left = 0 if chunks.done else 1
        if head:
            data = head + data
        if data:
            exchange.client.write(data)
        if left == 0 and self.exchange is exchange:  # who asked may have had enough of it
            self._finish(exchange, beyond)

    def _finish(self, exchange: Exchange, beyond: bytes) -> None:
        now = clock.now()
        self.exchange = None
        self._left = _IN_HEAD
        self._chunks = None
        if self._paused_at:
            self.set_client_full(False)
        body = exchange.body
        all_sent = (body is None or body.is_sent) and not self.transport.get_write_buffer_size()
        if self._reusable and not beyond and all_sent:
            self.used_before = True
            self._pool.release(self, now)
        else:
            self.transport.abort()  # bytes beyond the answer, or a request that it did not wait for
        exchange.answered(now)

    def _break(self, exchange: Exchange, reason: Reason, error: Exception | None = None) -> None:
        """Give this answer up."""
        self.exchange = None
        self._pool.note_broken(reason, error)
        self.transport.abort()
        exchange.fail(reason, clock.now())


def _may_be_answer(data: bytes) -> bool:
    """Tell whether bytes without the end of a head can be the beginning of one; garbage need not be waited for."""
    return data.startswith(_VERSION) or _VERSION.startswith(data)
