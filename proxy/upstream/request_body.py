"""A request's body on its way: read before a worker is taken, given to the homeserver once it may have it (§3.1, §3.2).

A body that comes in one piece stays that piece. Any other goes through a `BodyStore`. Where the store's budget is used up
the body *streams*: the request takes a worker, if it may, before its body is whole, and what comes goes on as the
homeserver takes it.
"""

from typing import TYPE_CHECKING, Final

from proxy.http1.chunked import ChunkedBody
from proxy.http1.request_head import CHUNKED
from proxy.mechanisms.rate_floor import RateFloor
from proxy.spool.body_store import BUDGET, TAKEN, BodyStore

if TYPE_CHECKING:
    from proxy.upstream.exchange import Exchange

_UNIT_BYTES: Final = 262_144


class RequestBody:
    """See the module. `left` are the bytes still to come, CHUNKED while only its end tells; `read_bytes` came, decoded.

    `wanted`: the client may send it. `streams`: the homeserver's worker waits for it. `floor`: how fast it has to come.
    `judged`: it was found to be large on its way, `too_large` beyond what may be.
    """

    __slots__ = (
        "_chunks",
        "_exchange",
        "_piece",
        "_store",
        "_upstream_full",
        "floor",
        "judged",
        "left",
        "read_bytes",
        "streams",
        "too_large",
        "wanted",
    )

    def __init__(self, exchange: "Exchange", length: int) -> None:
        self._exchange = exchange
        self._chunks = None if length != CHUNKED else ChunkedBody()
        self._piece = b""
        self._store: BodyStore | None = None
        self._upstream_full = False
        self.floor: RateFloor | None = None
        self.judged = False
        self.too_large = False
        self.left = length
        self.read_bytes = 0
        self.streams = False
        self.wanted = False

    # From the client's side.

    def take(self, data: bytes) -> bytes:
        """Take what belongs to the body; give back what lies beyond it.

        Raises:
            BadChunkError: if it is no good chunked body.
        """
        beyond = b""
        chunks = self._chunks
        if chunks is not None:
            whole = data
            data, beyond_bytes = chunks.feed(data)
            if beyond_bytes:
                beyond = whole[len(whole) - beyond_bytes :]
            if chunks.done:
                self.left = 0
            self.read_bytes = chunks.payload_bytes
        else:
            left = self.left
            if len(data) > left:
                data, beyond = data[:left], data[left:]
            self.left = left - len(data)
            self.read_bytes += len(data)
        if not self.left and self._store is None and not self.streams:
            self._piece = data
        elif data:
            self._put(data)
        if chunks is not None:
            self._exchange.course.body_grows(self._exchange, self)  # which may end it
        if not self.left:
            if self._store is not None:
                self._store.finish()
            if self.streams:
                self._exchange.course.body_streamed(self._exchange)
            else:
                self._exchange.course.body_read(self._exchange)
        return beyond

    def _put(self, data: bytes) -> None:
        store = self._store
        if store is None:
            store = self._store = self._exchange.course.new_store(self._exchange)
            store.on_ready = self._pump
            store.on_room = self._has_room
            store.on_budget = self._stream
            store.on_failed = self._failed
        verdict = store.append(data)
        if verdict is not TAKEN and self.left:
            self._exchange.client.set_upstream_full(True)
            if verdict is BUDGET:
                self._stream()

    def _has_room(self) -> None:
        self._exchange.client.set_upstream_full(False)

    def _stream(self) -> None:
        if not self.streams:
            self.streams = True
            self._exchange.course.body_streams(self._exchange)

    def _failed(self, _: Exception) -> None:
        self._exchange.course.body_lost(self._exchange)

    # From the homeserver's side.

    @property
    def is_sent(self) -> bool:
        """Whether all of it was written to the homeserver's side."""
        return not self.left and (self._store is None or self._store.at_end)

    def whole(self, max_bytes: int) -> bytes | None:
        """Give a body that is complete and in memory, None if it is not or is longer; it goes on as it came all the same."""
        if self.left or self.read_bytes > max_bytes:
            return None
        store = self._store
        if store is not None:
            found = store.take_whole()
            if found is None:
                return None
            self._piece = found
            store.end()
            self._store = None
        return self._payload() if self._chunks is not None else self._piece

    def _payload(self) -> bytes | None:
        return ChunkedBody(decode=True).feed(self._piece)[0]

    def first(self) -> bytes:
        """Give what goes out with the head."""
        return self._piece

    def go_on(self) -> None:
        """The homeserver's side is there: the rest follows as it takes it."""
        self._upstream_full = False
        self._pump()

    def set_upstream_full(self, full: bool) -> None:  # noqa: FBT001
        """The homeserver's side takes no more for now, or does again."""
        self._upstream_full = full
        if not full:
            self._pump()

    def _pump(self) -> None:
        store, upstream = self._store, self._exchange.upstream
        if store is None or upstream is None:
            return
        while not self._upstream_full:
            data = store.take_next(_UNIT_BYTES)
            if not data:
                return
            upstream.write(data)

    def end(self) -> None:
        """Give back what it holds; it may be called twice."""
        self._piece = b""
        if self._store is not None:
            self._store.end()
