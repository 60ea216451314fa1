"""One request and its answer between a client's connection and the homeserver's: who owns what, until both are done.

An exchange waits in the pool, runs on one upstream connection, and ends exactly once: answered, refused or abandoned. It
holds no buffer: bytes go on as they come, and a side that cannot take more pauses the other.
"""

from typing import Protocol

from proxy.errors import Reason
from proxy.http1.chunked import ChunkedBody
from proxy.http1.request_head import CHUNKED, RequestHead
from proxy.http1.response_head import CHUNKED as RESPONSE_CHUNKED
from proxy.http1.response_head import UNTIL_CLOSE, ResponseHead, without_chunking
from proxy.matrix.routes import RouteClass

_RESENT_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_MAX_RESENDS = 1
_END = b"\r\n\r\n"
_CLOSE = b"\r\nConnection: close\r\n\r\n"
_KEEP_ALIVE = b"\r\nConnection: keep-alive\r\n\r\n"


class ClientPort(Protocol):
    """What an exchange asks of the client's connection."""

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""

    def body_wanted(self) -> None:
        """The body may be read now."""

    def must_close(self) -> bool:
        """Whether the answer has to be the connection's last."""

    def answered(self, now: float, *, close: bool) -> None:
        """The answer is written."""

    def refuse(self, reason: Reason) -> None:
        """Answer in the homeserver's place."""

    def cut(self) -> None:
        """The answer broke off: the client must be able to tell."""

    def tunnel_began(self) -> None:
        """From now on bytes pass both ways."""

    def tunnel_bytes(self, data: bytes) -> None:
        """Send bytes of a tunnel to the client."""

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001
        """The homeserver's side cannot take more now, or can again."""


class UpstreamPort(Protocol):
    """What an exchange asks of the connection to the homeserver."""

    used_before: bool

    def write(self, data: bytes) -> None:
        """Send bytes to the homeserver."""

    def set_client_full(self, full: bool) -> None:  # noqa: FBT001
        """The client cannot take more now, or can again."""

    def abandon(self) -> None:
        """End the request: nobody wants its answer."""

    def write_eof(self) -> None:
        """The client of a tunnel sends no more."""


class PoolPort(Protocol):
    """What an exchange asks of the pool."""

    def submit(self, exchange: "Exchange") -> None:
        """Run the exchange on a connection, now or when one is there."""

    def withdraw(self, exchange: "Exchange") -> None:
        """It no longer waits."""

    def resend(self, exchange: "Exchange") -> None:
        """Run it again, its connection was stale."""


class Exchange:
    """See the module. `deadline_s` bounds the homeserver's answer; `waits_until` the wait for a connection."""

    __slots__ = (
        "answer_began", "body", "body_left", "client", "closes", "deadline_s", "head", "pool", "request_id", "resends", "route",
        "started_at", "status", "upstream", "waits_until", "wire_head",
    )  # fmt: skip

    def __init__(
        self, client: ClientPort, head: RequestHead, route: RouteClass, request_id: bytes, wire_head: bytes,
        pool: PoolPort, deadline_s: float, started_at: float,
    ) -> None:  # fmt: skip
        self.client = client
        self.head = head
        self.route = route
        self.request_id = request_id
        self.wire_head = wire_head
        self.pool = pool
        self.deadline_s = deadline_s
        self.started_at = started_at
        self.waits_until = 0.0
        self.upstream: UpstreamPort | None = None
        self.body_left = head.fields.length
        self.body = None if self.body_left != CHUNKED else ChunkedBody()
        self.answer_began = False
        self.closes = False
        self.resends = 0
        self.status = 0

    # From the pool.

    def fail(self, reason: Reason) -> None:
        """No answer will come: tell the client, in words if nothing was sent yet."""
        self.upstream = None
        if self.answer_began:
            self.client.cut()
        else:
            self.client.refuse(reason)

    # From the client's connection.

    @property
    def body_complete(self) -> bool:
        """Whether all of the request's body was taken."""
        return self.body_left == 0

    def take_body(self, data: bytes) -> bytes:
        """Send on what belongs to the body; give back what lies beyond it.

        Raises:
            BadChunkError: if it is no good chunked body.
        """
        upstream = self.upstream
        if self.body is not None:
            out, beyond = self.body.feed(data)
            if out and upstream is not None:
                upstream.write(out)
            if self.body.done:
                self.body_left = 0
            return data[len(data) - beyond :] if beyond else b""
        left = self.body_left
        if len(data) <= left:
            self.body_left = left - len(data)
            if upstream is not None:
                upstream.write(data)
            return b""
        self.body_left = 0
        if upstream is not None:
            upstream.write(data[:left])
        return data[left:]

    def abandon(self) -> None:
        """The client is gone, or gets another answer: end the request wherever it is."""
        if self.upstream is None:
            self.pool.withdraw(self)
        else:
            self.upstream.abandon()
            self.upstream = None

    # From the connection to the homeserver.

    def may_resend(self) -> bool:
        """Tell whether a connection that died without an answer was merely stale (§9.5)."""
        return (
            self.upstream is not None
            and self.upstream.used_before
            and self.head.fields.length == 0
            and self.head.method in _RESENT_METHODS
            and not self.head.upgrade
            and self.resends < _MAX_RESENDS
        )

    def answer_head(self, response: ResponseHead) -> bytes:
        """Give the bytes of the answer's head as the client gets them."""
        self.answer_began = True
        self.status = response.status
        length = response.length
        if self.client.must_close() or self.body_left or length == UNTIL_CLOSE:
            self.closes = True
        if self.head.minor:
            return response.wire + (_CLOSE if self.closes else _END)
        if length == RESPONSE_CHUNKED:
            self.closes = True
            return without_chunking(response.wire) + _CLOSE
        return response.wire + (_CLOSE if self.closes else _KEEP_ALIVE)

    def interim(self, response: ResponseHead) -> None:
        """Pass a 103 and its like on to clients that know of them."""
        if self.head.minor:
            self.client.write(response.wire + _END)

    def switch(self, response: ResponseHead, beyond: bytes) -> None:
        """Turn a 101 into a tunnel; `beyond` are the first bytes in it."""
        self.answer_began = True
        self.status = response.status
        self.client.write(response.wire + b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + beyond)
        self.client.tunnel_began()
