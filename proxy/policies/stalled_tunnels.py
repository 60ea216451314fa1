"""A delivery in a tunnel, told from outside: unanswered, answered, or stalled (behaviour.md §7.3, ADR 0017). Pure.

The homeserver opens a tunnel to deliver at once, sends one request at a time, and keeps the tunnel for the next one. Seen are
the TLS records' kinds, lengths and times, and who ends the tunnel how. What counts as an answer:

    TLS 1.2          the gateway's first record of application data after the request
    TLS 1.3          the same, but in a tunnel's first exchange session tickets look alike: records that come within a round
                     trip or so of the homeserver's Finished, at most four and of one length (to 32 bytes), are *unclear*
    unclear          settled by what the homeserver does: another request means that it was answered, and so does a tunnel
                     kept beyond the homeserver's timeout; a tunnel it ends at its timeout had stalled
    on trial         a gateway whose answers the homeserver did not take before (`Sign.DOUBTED`): all of them are unclear

    HTTP/2 offered   requests share the tunnel, and frames that ask for nothing look like them: once anything came after the
                     handshake the gateway counts as reached, and nothing more is told

The version is told by who sends application data first: under TLS 1.3 the gateway, whose handshake is dressed as such.
A record of the homeserver's that follows its last one within `_ONE_REQUEST_S` may be the rest of the same request: unclear.
"""

import re
from enum import IntEnum
from typing import Final

from proxy.mechanisms.tls_records import ALERT, APPLICATION_DATA, RecordReader

_ENCRYPTED_ALERT_BYTES: Final = 19  # two of the alert, its kind, a tag of sixteen
_TICKETS_AT_MOST: Final = 4
_TICKETS_DIFFER_BYTES: Final = 32
_TICKETS_WITHIN_S: Final = 0.1  # beside two round trips
_ONE_REQUEST_S: Final = 0.5
_HELLO_BYTES: Final = 4096  # of what a homeserver sends first; a ClientHello is shorter
#: In a ClientHello: the extension of application protocols, its lengths, and "h2" among them (RFC 7301 §3.1).
_OFFERS_H2: Final = re.compile(
    rb"\x00\x10\x00[^\xff]\x00[^\xff](?:[\x01-\x1f][!-~]{1,31}){0,8}?\x02h2", re.DOTALL
)
_TIMEOUT_EARLY_S: Final = 1.0  # the homeserver's clock began a little before ours
TIMEOUT_LATE_S: Final = 5.0
#: One that the homeserver ends sooner may have ended for the homeserver's own reasons.
UNANSWERED_S: Final = 10.0


class Sign(IntEnum):
    """What bytes, or the end of a tunnel, tell."""

    NOTHING = 0
    REQUEST = 1  # another delivery begins
    ANSWERED = 2
    STALLED = 3
    TLS_FAILED = 4
    CLOSED = 5  # by the gateway, before an answer
    ABANDONED = 6  # by the homeserver, with nothing to be learned
    OVER = 7  # nothing was under way
    DOUBTED = 8  # answered for all that could be seen, but the homeserver gave up waiting


class _Phase(IntEnum):
    HANDSHAKE = 0
    WAITING = 1
    IDLE = 2


_HANDSHAKE, _WAITING, _IDLE = _Phase
_NOTHING, _REQUEST, _ANSWERED = Sign.NOTHING, Sign.REQUEST, Sign.ANSWERED


class TunnelWatch:
    """One tunnel; `timeout_s` is how long the homeserver waits for an answer, counted from its CONNECT at `now`."""

    __slots__ = (
        "_asked_at", "_clear", "_closing", "_finished_at", "_first", "_heard", "_hello", "_in", "_last_out_at",
        "_multiplexed", "_on_trial", "_opened_at", "_out", "_phase", "_requested", "_round_trip_s", "_sizes", "_timeout_s",
        "_tls13",
    )  # fmt: skip

    def __init__(self, now: float, timeout_s: float, *, on_trial: bool = False) -> None:
        self._timeout_s = timeout_s
        self._on_trial = on_trial
        self._out, self._in = RecordReader(), RecordReader()
        self._phase = _HANDSHAKE
        self._tls13: bool | None = None
        self._first = True
        self._clear = True  # nothing came that may be an answer
        self._heard = False  # the gateway sent something since the homeserver last did
        self._closing = False
        self._requested = False
        self._hello = b""
        self._multiplexed = False
        self._asked_at = now
        self._opened_at = self._last_out_at = self._finished_at = now
        self._round_trip_s: float | None = None
        self._sizes: list[int] = []

    @property
    def opaque(self) -> bool:
        """Whether the homeserver does not speak TLS here: nothing can be told then."""
        return self._out.opaque

    @property
    def gives_up_at(self) -> float:
        """The moment by which the homeserver has given up what is unanswered (monotonic seconds)."""
        return self._asked_at + self._timeout_s + TIMEOUT_LATE_S

    def opened(self, now: float) -> None:
        """The gateway accepted: from here the round trip is measured."""
        self._opened_at = now

    def from_homeserver(self, data: bytes, now: float) -> Sign:
        """Take bytes of the homeserver's. REQUEST: the one before, if it was unclear, has been answered."""
        sign = _NOTHING
        if self._phase is _HANDSHAKE and len(self._hello) < _HELLO_BYTES:
            self._hello += data[:_HELLO_BYTES]
        for kind, length in self._out.feed(data):
            if kind == ALERT or (
                kind == APPLICATION_DATA and self._tls13 and length == _ENCRYPTED_ALERT_BYTES
            ):
                self._closing = True
            elif kind == APPLICATION_DATA:
                sign = self._homeserver_sent(now) or sign
        return sign

    def _homeserver_sent(self, now: float) -> Sign:
        if self._phase is _HANDSHAKE:
            self._phase = _WAITING
            self._finished_at = self._last_out_at = now
            if self._tls13:
                return _NOTHING  # this was its Finished
            self._tls13 = False
        if self._multiplexed:
            return _NOTHING
        gap_s, self._last_out_at = now - self._last_out_at, now
        if not self._requested:
            self._requested = True
            return _NOTHING
        heard, self._heard = self._heard, False
        if self._phase is _WAITING and (self._clear or not heard or gap_s < _ONE_REQUEST_S):
            return _NOTHING
        self._clear = self._phase is _WAITING or gap_s >= _ONE_REQUEST_S
        self._phase = _WAITING
        self._first = False
        self._asked_at = now
        return _REQUEST

    def from_gateway(self, data: bytes, now: float) -> Sign:
        """Take bytes of the gateway's."""
        if self._round_trip_s is None:
            self._round_trip_s = now - self._opened_at
            self._multiplexed = _OFFERS_H2.search(self._hello) is not None
            self._hello = b""
        sign = _NOTHING
        for kind, length in self._in.feed(data):
            if kind == APPLICATION_DATA:
                sign = self._gateway_sent(length, now) or sign
        return sign

    def _gateway_sent(self, length: int, now: float) -> Sign:
        if self._phase is _HANDSHAKE:
            self._tls13 = True
        elif self._phase is _WAITING and not (self._tls13 and length == _ENCRYPTED_ALERT_BYTES):
            self._heard = True
            if not self._multiplexed and (self._on_trial or self._may_be_ticket(length, now)):
                self._clear = False
            else:
                self._phase = _IDLE
                self._first = False
                return _ANSWERED
        return _NOTHING

    def _may_be_ticket(self, length: int, now: float) -> bool:
        if not (self._tls13 and self._first):
            return False
        sizes = self._sizes
        sizes.append(length)
        within_s = 2 * (self._round_trip_s or 0.0) + _TICKETS_WITHIN_S
        return (
            len(sizes) <= _TICKETS_AT_MOST
            and max(sizes) - min(sizes) <= _TICKETS_DIFFER_BYTES
            and now - self._finished_at <= within_s
        )

    def deadline_passed(self) -> Sign:
        """`gives_up_at` has passed with the homeserver still there."""
        if self._clear:
            return Sign.STALLED
        self._phase = _IDLE
        self._first = False
        return _ANSWERED

    def ended_by_gateway(self) -> Sign:
        """The gateway ended the tunnel."""
        if self.opaque:
            return Sign.OVER
        if self._phase is _HANDSHAKE:
            return Sign.TLS_FAILED
        return Sign.OVER if self._phase is _IDLE else Sign.CLOSED

    def ended_by_homeserver(self, now: float, *, reset: bool) -> Sign:
        """The homeserver ended the tunnel, in order or by a reset."""
        if self.opaque:
            return Sign.OVER
        age_s = now - self._asked_at
        timed_out = self._timeout_s - _TIMEOUT_EARLY_S <= age_s <= self._timeout_s + TIMEOUT_LATE_S
        if self._phase is _IDLE:
            return Sign.DOUBTED if reset and timed_out else Sign.OVER
        if self._phase is _HANDSHAKE and (self._closing or self._round_trip_s is not None):
            # It did not like what the gateway showed; not every client says so in an alert.
            return Sign.TLS_FAILED
        if self._clear:
            return Sign.STALLED if timed_out or age_s >= UNANSWERED_S else Sign.ABANDONED
        if self._on_trial and not (reset and timed_out):
            return _ANSWERED
        return Sign.STALLED if timed_out else Sign.ABANDONED
