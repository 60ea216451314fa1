"""What Fairgate asks the homeserver itself: whose a token is (§2.3), how large uploads may be (§3.3), which pushers are there.

Over the same connections as everything else, and under the request's own rights: its token, its client's address.
"""

from collections.abc import Callable
from typing import Final

from proxy import clock
from proxy.errors import Reason
from proxy.http1.chunked import BadChunkError, ChunkedBody
from proxy.http1.request_head import parse_request_head
from proxy.http1.response_head import without_chunking
from proxy.identity.client_key import Client
from proxy.matrix.routes import find_endpoint
from proxy.spool.body_store import BodyStore
from proxy.upstream.exchange import Exchange, Nobody
from proxy.upstream.pool import Pool
from proxy.upstream.request_body import RequestBody

WHOAMI: Final = b"/_matrix/client/v3/account/whoami"
PUSHERS: Final = b"/_matrix/client/v3/pushers"
_MAX_ANSWER_BYTES: Final = 1_048_576
_HEAD: Final = parse_request_head(
    b"GET / HTTP/1.1\r\nHost: homeserver\r\n\r\n", max_fields=10, max_target_bytes=1024
)
_ENDPOINT: Final = find_endpoint(b"GET", b"/")

#: Told once how it ended: the status, 0 where there was no answer; the answer as a client gets it; its body decoded.
Done = Callable[[int, bytes, bytes], None]


class Questions:
    """Asks; how many at once is not decided here. `timeout_s` bounds the wait for a connection, and then the answer."""

    max_hold_s = 0.0

    def __init__(self, pool: Pool, host: bytes, timeout_s: float) -> None:
        self._pool = pool
        self._host = host
        self.timeout_s = timeout_s

    def ask(self, target: bytes, token: bytes, client: Client, now: float, done: Done) -> None:
        """Ask once, for a request with `token` from `client`."""
        wire_head = b"".join(
            (
                b"GET ", target, b" HTTP/1.1\r\nHost: ", self._host, b"\r\nAuthorization: Bearer ", token,
                b"\r\nAccept: application/json", client.fields(b"http"), b"\r\n\r\n",
            )
        )  # fmt: skip
        asker = _Asker(done)
        asker.exchange = exchange = Exchange(
            asker, client, _HEAD, _ENDPOINT, wire_head, self, self.timeout_s, now
        )
        self._pool.submit(exchange, now)

    # Course, for the exchange: a question takes no worker, so there is nothing to give back.

    def ends_with_client(self, exchange: Exchange) -> bool:  # noqa: ARG002
        """An answer that comes too late is given up."""
        return True

    def body_read(self, exchange: Exchange) -> None:
        """It has no body."""

    def body_streams(self, exchange: Exchange) -> None:
        """It has no body."""

    def body_streamed(self, exchange: Exchange) -> None:
        """It has no body."""

    def body_grows(self, exchange: Exchange, body: RequestBody) -> None:
        """It has no body."""

    def body_lost(self, exchange: Exchange) -> None:
        """It has no body."""

    def new_store(self, exchange: Exchange) -> BodyStore:  # noqa: ARG002
        """It has no body.

        Raises:
            AssertionError: always.
        """
        raise AssertionError("a question has no body")

    def withdraw(self, exchange: Exchange) -> None:
        """It waits for a connection, and need not any more."""
        self._pool.withdraw(exchange)

    def held(self, exchange: Exchange, now: float) -> None:
        """Never: see `ends_with_client`."""

    def ended(self, exchange: Exchange, now: float) -> None:
        """Nothing was taken for it."""

    def tunnelled(self, exchange: Exchange) -> None:
        """Never: it asks for none."""


class _Asker(Nobody):
    """Stands where a client's connection would: gathers the answer."""

    __slots__ = ("_answer", "_done", "exchange")

    def __init__(self, done: Done) -> None:
        self._done = done
        self._answer = b""
        self.exchange: Exchange | None = None

    def write(self, data: bytes) -> None:
        """Keep a part of the answer; one that is too long is none."""
        self._answer += data
        if len(self._answer) > _MAX_ANSWER_BYTES and self.exchange is not None:
            self.exchange.left(clock.now())
            self._end(0)

    def answered(self, now: float, *, close: bool) -> None:  # noqa: ARG002
        """Tell who asked."""
        self._end(0 if self.exchange is None else self.exchange.status)

    def refuse(self, reason: Reason, retry_after_s: float | None = None) -> None:  # noqa: ARG002
        """There is no answer."""
        self._end(0)

    def cut(self) -> None:
        """It broke off."""
        self._end(0)

    def _end(self, status: int) -> None:
        if self.exchange is not None:
            self.exchange = None
            self._done(status, self._answer, _body_of(self._answer) if status else b"")


def without_chunks(answer: bytes) -> bytes:
    """Give an answer as a client of HTTP/1.0 can read it: its body ends with the connection."""
    head, end, _ = answer.partition(b"\r\n\r\n")
    return without_chunking(head) + end + _body_of(answer)


def _body_of(answer: bytes) -> bytes:
    """Give the body without chunks; empty where it is none."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"\r\ntransfer-encoding:" not in head.lower():
        return body
    try:
        return ChunkedBody(decode=True).feed(body)[0]
    except BadChunkError:
        return b""
