"""One plain request and its answer between the homeserver and a host: bytes as they came, each side pausing the other.

Where it is a push delivery two things are added: its end is told once to `Deliveries`, and an answer of at most 64 KiB is
kept until it is whole, so that `rejected` can be judged (§7.5); a longer or compressed one passes. An answer counts once it
is complete, so a host that trickles one stalls.
"""

import re
from typing import TYPE_CHECKING, Final

from proxy.egress.deliveries import Delivery
from proxy.egress.origin import OriginConnection
from proxy.egress.reasons import EgressReason
from proxy.egress.request import ProxyRequest
from proxy.http1.chunked import BadChunkError, ChunkedBody
from proxy.http1.fields import CHUNKED
from proxy.http1.response_head import (
    UNTIL_CLOSE,
    ResponseBrokenError,
    ResponseHead,
    parse_response_head,
    without_chunking,
)
from proxy.policies.push_egress import DeliveryEnd
from proxy.policies.rejected_filter import MAX_BODY_BYTES, named_pushkeys, without_foreign
from proxy.policies.stalled_tunnels import TIMEOUT_LATE_S, UNANSWERED_S

if TYPE_CHECKING:
    from proxy.egress.connection import HomeserverConnection
    from proxy.egress.egress import Egress

_MAX_HEAD_BYTES: Final = 65_536
_MAX_INTERIM: Final = 8
_IN_HEAD: Final = -3  # of `_left`: no body is expected yet
_ANSWER_S: Final = 600.0  # of what is no delivery: previews of large pages
_CODED: Final = re.compile(rb"\r\ncontent-encoding:(?![ \t]*identity[ \t]*(?:\r|$))", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\n(content-length):[^\r]*", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class PlainExchange:
    """See the module; `keeps` says that the homeserver's connection may serve another request."""

    __slots__ = (
        "_chunks", "_decoded", "_egress", "_head_bytes", "_held", "_interim", "_left", "_notification", "_reusable",
        "_wire", "answer_began", "began_at", "body", "body_left", "client", "delivery", "keeps", "origin", "request",
    )  # fmt: skip

    def __init__(self, egress: "Egress", client: "HomeserverConnection", request: ProxyRequest) -> None:
        self._egress = egress
        self.client = client
        self.request = request
        self.delivery: Delivery | None = None
        self.origin: OriginConnection | None = None
        self.began_at = egress.clock()
        self.body_left = request.head.fields.length
        self.body = ChunkedBody() if self.body_left == CHUNKED else None
        self.answer_began = False
        self.keeps = request.head.fields.keep_alive
        self._notification: bytearray | None = None
        self._head_bytes = b""
        self._wire = b""
        self._left = _IN_HEAD
        self._chunks: ChunkedBody | None = None
        self._held: list[bytes] | None = None
        self._decoded = bytearray()
        self._interim = 0
        self._reusable = False

    # The request.

    def run(self, origin: OriginConnection, kept: bytes) -> bytes:
        """Send it; give what of `kept` lies beyond it."""
        self.origin = origin
        origin.exchange = self
        timeout_s = self._egress.settings.delivery_timeout_seconds + TIMEOUT_LATE_S
        origin.deadline_at = self.began_at + timeout_s if self.delivery else self._egress.clock() + _ANSWER_S
        if self.delivery is not None:
            self._notification = bytearray()
            self._egress.deliveries.add(self.delivery.key, self)
        if self.request.head.fields.expects_continue and not kept:
            self.client.transport.write(_CONTINUE)
        origin.transport.write(self.request.wire)
        return self.take_body(kept) if kept else b""

    def take_body(self, data: bytes) -> bytes:
        """Send on what belongs to the body; give what lies beyond it."""
        if self.body_left == 0:
            return data
        if self.body is not None:
            try:
                out, beyond_bytes = self.body.feed(data)
            except BadChunkError:
                self._give_up(EgressReason.ORIGIN_BROKEN, DeliveryEnd.DECLINED)
                return b""
            if self.body.done:
                self.body_left = 0
        else:
            out = data[: self.body_left]
            beyond_bytes = len(data) - len(out)
            self.body_left -= len(out)
        if self._notification is not None:
            self._notification += out
            if len(self._notification) > MAX_BODY_BYTES:
                self._notification = None
        if out and self.origin is not None:
            self.origin.transport.write(out)
        return data[len(data) - beyond_bytes :] if beyond_bytes else b""

    def origin_full(self, full: bool) -> None:  # noqa: FBT001  (of a callback)
        """The host takes no more of the body for now, or does again."""
        self.client.read_body(not full)

    # The answer.

    def from_origin(self, data: bytes) -> None:
        """Read the answer, or more of it."""
        if self._left == _IN_HEAD:
            self._read_head(data)
        else:
            self._read_body(data)

    def _read_head(self, data: bytes) -> None:
        self._head_bytes += data
        while True:
            end = self._head_bytes.find(_END) + 4
            if end == 3:
                if len(self._head_bytes) > _MAX_HEAD_BYTES or b"\n\n" in self._head_bytes:
                    self._give_up(EgressReason.ORIGIN_BROKEN, DeliveryEnd.CLOSED)
                return
            try:
                response = parse_response_head(self._head_bytes[:end], method=self.request.head.method)
            except ResponseBrokenError:
                self._give_up(EgressReason.ORIGIN_BROKEN, DeliveryEnd.CLOSED)
                return
            self._head_bytes = self._head_bytes[end:]
            if response.status >= 200:
                break
            self._interim += 1
            if self._interim > _MAX_INTERIM or response.status == 101:
                self._give_up(EgressReason.ORIGIN_BROKEN, DeliveryEnd.CLOSED)
                return
            if response.status != 100 and self.request.head.minor:
                self.client.transport.write(response.wire + _END)
        self._begin_answer(response)
        data, self._head_bytes = self._head_bytes, b""
        self._read_body(data)

    def _begin_answer(self, response: ResponseHead) -> None:
        """Settle how the answer goes on; a delivery's is kept until it is whole."""
        self._left = response.length
        self._reusable = response.keep_alive
        old = not self.request.head.minor
        self._wire = response.wire
        if self._left == CHUNKED:
            self._chunks = ChunkedBody(decode=old)
            if old:
                self._wire = without_chunking(self._wire)
        if self._left == UNTIL_CLOSE or self.body_left or (old and self._left == CHUNKED):
            self.keeps = False
        if self._notification is not None and not self.body_left and not _CODED.search(self._wire):
            self._held = []
        else:
            self._send_head()

    def _send_head(self) -> None:
        self.answer_began = True
        keeps = self.keeps and not self._egress.stopping
        self.keeps = keeps
        option = b"\r\nConnection: close" if not keeps else b""
        if keeps and not self.request.head.minor:
            option = b"\r\nConnection: keep-alive"
        self.client.transport.write(self._wire + option + _END)

    def _read_body(self, data: bytes) -> None:
        """Pass on what belongs to the body; end with its last byte."""
        beyond = False
        if self._left >= 0:
            beyond = len(data) > self._left
            data = data[: self._left]
            self._left -= len(data)
        elif self._chunks is not None:
            try:
                data, beyond_bytes = self._chunks.feed(data)
            except BadChunkError:
                self._give_up(EgressReason.ORIGIN_BROKEN, DeliveryEnd.CLOSED)
                return
            beyond = beyond_bytes > 0
            self._left = 0 if self._chunks.done else self._left
        if data:
            self._send(data)
        if self._left == 0:
            self._finish(reusable=self._reusable and not beyond)

    def _send(self, data: bytes) -> None:
        if self._held is None:
            self.client.transport.write(data)
            return
        self._held.append(data)
        self._decoded += data
        if len(self._decoded) > MAX_BODY_BYTES:
            self._send_held()

    def _send_held(self) -> None:
        held, self._held = self._held, None
        self._send_head()
        self.client.transport.write(b"".join(held or ()))

    def _finish(self, *, reusable: bool) -> None:
        """The answer is whole."""
        if self._held is not None:
            self._filter()
        origin, self.origin = self.origin, None
        self._end(DeliveryEnd.ANSWERED)
        if origin is not None:
            origin.exchange = None
            if reusable and self.body_left == 0 and not origin.transport.get_write_buffer_size():
                self._egress.kept.keep(origin, self._egress.clock())
            else:
                origin.transport.abort()
        self.client.answered(close=not self.keeps)

    def _filter(self) -> None:
        """Take pushkeys out of `rejected` that the notification did not name, then send the answer."""
        payload = bytes(self._decoded)
        if self._chunks is not None and self.request.head.minor:
            payload = _payload(payload)
        sent = bytes(self._notification or b"")
        named = named_pushkeys(_payload(sent) if self.body is not None else sent)
        filtered = without_foreign(payload, named) if named is not None else None
        if filtered is not None:
            self._egress.filtered_total += 1
            chunked = self._chunks is not None and self.request.head.minor
            self._held = [b"%x\r\n%s\r\n0\r\n\r\n" % (len(filtered), filtered)] if chunked else [filtered]
            self._wire = _LENGTH.sub(rb"\r\n\1: %d" % len(filtered), self._wire)
        self._send_held()

    # Ends.

    def origin_ended(self, *, in_order: bool) -> None:
        """The host sends no more: the end of an answer that has no other, or too soon."""
        if self._left == UNTIL_CLOSE and in_order:
            self._finish(reusable=False)
        else:
            self._give_up(EgressReason.ORIGIN_CLOSED, DeliveryEnd.CLOSED)

    def too_late(self) -> None:
        """The answer's deadline has passed."""
        self._give_up(EgressReason.ORIGIN_TIMEOUT, DeliveryEnd.STALLED)

    def cut(self) -> None:
        """The gateway is refused from now on: do not wait for it here either."""
        self._give_up(EgressReason.GATEWAY_REFUSED, DeliveryEnd.DECLINED)

    def homeserver_left(self) -> None:
        """Nobody waits for the answer any more."""
        age_s = self._egress.clock() - self.began_at
        late = self.origin is not None and age_s >= min(
            UNANSWERED_S, self._egress.settings.delivery_timeout_seconds - 1
        )
        self._release()
        self._end(DeliveryEnd.STALLED if late else DeliveryEnd.ABANDONED)

    def _give_up(self, reason: EgressReason, how: DeliveryEnd) -> None:
        self._release()
        self._end(how)
        if self.answer_began:
            self.client.cut()
        else:
            self._held = None
            self.client.tell(reason, close=self.body_left != 0 or not self.keeps)

    def _release(self) -> None:
        origin, self.origin = self.origin, None
        if origin is not None:
            origin.exchange = None
            origin.transport.abort()

    def _end(self, how: DeliveryEnd) -> None:
        delivery, self.delivery = self.delivery, None
        if delivery is not None:
            self._egress.deliveries.remove(delivery.key, self)
            self._egress.deliveries.end(delivery, how)


def _payload(chunked: bytes) -> bytes:
    """Decode a whole chunked body that was read already."""
    return ChunkedBody(decode=True).feed(chunked)[0]
