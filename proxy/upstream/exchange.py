"""One request and its answer between a client's connection and the homeserver's: who owns what, until both are done.

An exchange goes through its stages in order, may skip some, and ends exactly once. A client that leaves while the
homeserver works on its request is replaced by `NOBODY`: the answer is read and dropped, since the work goes on (§4.6).
"""

from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from proxy.errors import Reason
from proxy.http1.request_head import RequestHead
from proxy.http1.response_head import CHUNKED as RESPONSE_CHUNKED
from proxy.http1.response_head import UNTIL_CLOSE, ResponseHead
from proxy.upstream.request_body import RequestBody

if TYPE_CHECKING:
    from proxy.identity.client_key import Client
    from proxy.identity.lookups import Wait
    from proxy.identity.principal import Principal
    from proxy.matrix.access_token import AccessToken
    from proxy.matrix.endpoint import Endpoint, Lane
    from proxy.policies.first_syncs import FirstSync
    from proxy.policies.gate_values import GatePermit
    from proxy.policies.pusher_cap import PusherPermit
    from proxy.policies.tunnels import TunnelPermit
    from proxy.policies.wait_values import WaitPermit
    from proxy.policies.worker_share import Ticket
    from proxy.spool.body_store import BodyStore

#: Stages. IDENTIFYING: its token is looked up. READING: its body comes in. IN_LINE: it waits for a worker. IN_SERVICE: it is
#: at the homeserver, or waits for a connection to it. HELD: so is its work, but nobody wants the answer.
IDENTIFYING, READING, IN_LINE, IN_SERVICE, HELD, ENDED = range(6)

_RESENT_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_MAX_RESENDS = 1
_END = b"\r\n\r\n"
_CLOSE = b"\r\nConnection: close\r\n\r\n"
_KEEP_ALIVE = b"\r\nConnection: keep-alive\r\n\r\n"


class ClientPort(Protocol):
    """What an exchange asks of the client's connection."""

    #: What the client speaks, as X-Forwarded-Proto names it.
    scheme: ClassVar[bytes]

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""

    def body_wanted(self) -> None:
        """The body may be read now."""

    def must_close(self) -> bool:
        """Whether the answer has to be the connection's last."""

    def answered(self, now: float, *, close: bool) -> None:
        """The answer is written."""

    def refuse(self, reason: Reason, retry_after_s: float | None = None) -> None:
        """Answer in the homeserver's place."""

    def cut(self) -> None:
        """The answer broke off: the client must be able to tell."""

    def tunnel_began(self) -> None:
        """From now on bytes pass both ways."""

    def tunnel_bytes(self, data: bytes) -> None:
        """Send bytes of a tunnel to the client."""

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001
        """Nobody can take more of the body now, or somebody can again."""


class Nobody:
    """In the place of a client that is gone: whatever it would get is dropped."""

    __slots__ = ()

    scheme: ClassVar[bytes] = b"http"

    def write(self, data: bytes) -> None:
        """Drop it."""

    def body_wanted(self) -> None:
        """Nobody has a body."""

    def must_close(self) -> bool:
        """Nobody's connection ends with nothing."""
        return False

    def answered(self, now: float, *, close: bool) -> None:
        """Nobody waits for it."""

    def refuse(self, reason: Reason, retry_after_s: float | None = None) -> None:
        """Nobody is told."""

    def cut(self) -> None:
        """Nobody is told."""

    def tunnel_began(self) -> None:
        """A tunnel to nobody ends elsewhere."""

    def tunnel_bytes(self, data: bytes) -> None:
        """Drop it."""

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001
        """Nobody sends."""


NOBODY: Final = Nobody()


class UpstreamPort(Protocol):
    """What an exchange asks of the connection to the homeserver."""

    used_before: bool
    tunnel: bool

    def write(self, data: bytes) -> None:
        """Send bytes to the homeserver."""

    def has_sent_all(self) -> bool:
        """Whether all that was written is with the kernel."""

    def set_client_full(self, full: bool) -> None:  # noqa: FBT001
        """The client cannot take more now, or can again."""

    def abandon(self) -> None:
        """End the request: nobody wants its answer."""

    def go_on_until(self, deadline_at: float) -> None:
        """Read the answer until then, for nobody."""

    def write_eof(self) -> None:
        """The client of a tunnel sends no more."""


class Course(Protocol):
    """What an exchange asks of the pipeline, which knows what comes next."""

    max_hold_s: float

    def ends_with_client(self, exchange: "Exchange") -> bool:
        """Whether the homeserver stops when the connection goes."""

    def new_store(self, exchange: "Exchange") -> "BodyStore":
        """Make the store of a body that comes in pieces."""

    def body_grows(self, exchange: "Exchange", body: RequestBody) -> None:
        """More of a body came, and it is not whole."""

    def body_read(self, exchange: "Exchange") -> None:
        """All of its body was taken."""

    def body_streams(self, exchange: "Exchange") -> None:
        """No more of its body can be kept: the rest would go on while it comes."""

    def body_streamed(self, exchange: "Exchange") -> None:
        """The rest of it came, too: the homeserver's worker waits for the client no longer."""

    def body_lost(self, exchange: "Exchange") -> None:
        """What was taken of it cannot be read again."""

    def withdraw(self, exchange: "Exchange") -> None:
        """It waits somewhere, and its client left."""

    def held(self, exchange: "Exchange", now: float) -> None:
        """Its work goes on, for nobody."""

    def ended(self, exchange: "Exchange", now: float) -> None:
        """The homeserver is done with it, or never gets it."""

    def tunnelled(self, exchange: "Exchange") -> None:
        """It is a tunnel from here on."""


class Permits:
    """What few requests are given: a long poll's place, a background request's, a first sync's turn or a pusher's, a tunnel.

    `gateway` is the host and port of the pusher that a request registers, `streams_in` the lane where its body has a place.
    """

    __slots__ = ("background", "first_sync", "gateway", "pusher", "streams_in", "tunnel", "wait")

    def __init__(self) -> None:
        self.wait: WaitPermit[Exchange] | None = None
        self.first_sync: FirstSync[Exchange] | None = None
        self.background: GatePermit[Exchange] | None = None
        self.gateway: tuple[str, int] | None = None
        self.pusher: PusherPermit[Exchange] | None = None
        self.tunnel: TunnelPermit | None = None
        self.streams_in: Lane | None = None


class Exchange:
    """See the module. `deadline_s` bounds the homeserver's answer from `sent_at`; `waits_until` the wait for a connection.

    `access` is the token it came with, `principal` who asks; `wait` a wait for that, `ticket` a worker or a place in line,
    `permits` what else it was given. `times`, where each answer is logged: what it waited for its worker, and was served, in
    seconds. `status` is the homeserver's, `failure` why there was no whole answer.
    """

    __slots__ = (
        "access", "answer_began", "asker", "body", "client", "closes", "course", "deadline_s", "endpoint", "failure",
        "head", "permits", "principal", "request_id", "resends", "sent_at", "stage", "started_at", "status", "ticket",
        "times", "upstream", "wait", "waits_until", "wire_head",
    )  # fmt: skip

    def __init__(
        self, client: ClientPort, asker: "Client", head: RequestHead, endpoint: "Endpoint", wire_head: bytes,
        course: Course, deadline_s: float, started_at: float,
    ) -> None:  # fmt: skip
        self.client = client
        self.asker = asker
        self.head = head
        self.endpoint = endpoint
        self.request_id = b""
        self.wire_head = wire_head
        self.course = course
        self.deadline_s = deadline_s
        self.started_at = started_at
        self.stage = IDENTIFYING
        self.waits_until = 0.0
        self.upstream: UpstreamPort | None = None
        self.access: AccessToken | None = None
        self.wait: Wait[Exchange] | None = None
        self.principal: Principal | None = None
        self.ticket: Ticket | None = None
        self.permits: Permits | None = None
        self.failure: Reason | None = None
        self.sent_at = started_at
        length = head.fields.length
        self.body = RequestBody(self, length) if length else None
        self.answer_began = False
        self.closes = False
        self.resends = 0
        self.status = 0
        self.times: tuple[float, float] | None = None

    def given(self) -> Permits:
        """Give its permits, to enter one."""
        permits = self.permits
        if permits is None:
            permits = self.permits = Permits()
        return permits

    # From the pool.

    def fail(self, reason: Reason, now: float) -> None:
        """No answer will come: tell the client, in words if nothing was sent yet."""
        client = self.client
        self.upstream = None
        self.failure = reason
        self.course.ended(self, now)
        self.client = NOBODY
        if self.answer_began:
            client.cut()
        else:
            client.refuse(reason)

    # From the client's connection.

    @property
    def body_complete(self) -> bool:
        """Whether all of the request's body was taken."""
        return self.body is None or not self.body.left

    def end_body(self) -> None:
        """Let go of what is kept of the request's body."""
        if self.body is not None:
            self.body.end()

    def left(self, now: float) -> None:
        """The client is gone, or got another answer: withdraw the request, or let the homeserver go on for nobody."""
        self.client = NOBODY
        upstream = self.upstream
        if upstream is None:
            self.course.withdraw(self)
        elif upstream.tunnel or not self.is_sent(upstream) or self.course.ends_with_client(self):
            self._abandon(upstream, now)
        else:
            upstream.set_client_full(False)
            until = now + self.course.max_hold_s
            if self.ticket is None:  # a long poll that only waits is over when its own time is
                until = min(until, self.sent_at + self.deadline_s)
            upstream.go_on_until(until)
            self.stage = HELD
            self.course.held(self, now)

    def is_sent(self, upstream: UpstreamPort) -> bool:
        """Whether the homeserver has all of the request, or will without us."""
        return (self.body is None or self.body.is_sent) and upstream.has_sent_all()

    def _abandon(self, upstream: UpstreamPort, now: float) -> None:
        self.upstream = None
        upstream.abandon()
        self.course.ended(self, now)

    # From the connection to the homeserver.

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001
        """It takes no more for now, or does again."""
        if self.body is not None:
            self.body.set_upstream_full(full)
        else:
            self.client.set_upstream_full(full)  # of a tunnel

    def timed_out(self, now: float) -> None:
        """Our deadline passed: the client is told, and the homeserver may still be at work."""
        client, upstream = self.client, self.upstream
        if self.stage == HELD and upstream is not None:
            self._abandon(upstream, now)
            return
        self.failure = Reason.UPSTREAM_TIMEOUT
        self.left(now)
        if self.answer_began:
            client.cut()
        else:
            client.refuse(Reason.UPSTREAM_TIMEOUT)

    def may_resend(self) -> bool:
        """Tell whether a connection that died without an answer was merely stale (§9.5)."""
        return (
            self.upstream is not None
            and self.upstream.used_before
            and self.stage != HELD
            and self.body is None
            and self.head.method in _RESENT_METHODS
            and not self.head.upgrade
            and self.resends < _MAX_RESENDS
        )

    def answer_head(self, response: ResponseHead) -> bytes:
        """Give the bytes of the answer's head as the client gets them."""
        self.answer_began = True
        self.status = response.status
        length = response.length
        if self.client.must_close() or not self.body_complete or length == UNTIL_CLOSE:
            self.closes = True
        if self.head.minor:
            return response.wire + (_CLOSE if self.closes else _END)
        if length == RESPONSE_CHUNKED:
            self.closes = True
            return response.wire + _CLOSE  # without its coding: parse_response_head
        return response.wire + (_CLOSE if self.closes else _KEEP_ALIVE)

    def answered(self, now: float) -> None:
        """The answer is whole: the worker is free before the client is served further."""
        client = self.client
        self.upstream = None
        self.course.ended(self, now)
        client.answered(now, close=self.closes)

    def interim(self, response: ResponseHead) -> None:
        """Pass a 103 and its like on to clients that know of them."""
        if self.head.minor:
            self.client.write(response.wire + _END)

    def switch(self, response: ResponseHead, beyond: bytes, now: float) -> None:
        """Turn a 101 into a tunnel; `beyond` are the first bytes in it. A tunnel to nobody ends at once."""
        if self.stage == HELD and self.upstream is not None:
            self._abandon(self.upstream, now)
            return
        self.answer_began = True
        self.status = response.status
        self.course.tunnelled(self)
        client = self.client
        client.write(response.wire + b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        client.tunnel_began()
        if beyond:
            client.tunnel_bytes(beyond)
