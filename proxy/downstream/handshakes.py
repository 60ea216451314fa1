"""Runs TLS handshakes one at a time: one begins in a turn of the loop, so requests wait at most for one of them.

Whose turn it is, is `http1.handshake_line`'s. While others wait for a place, one whose client has not answered for a few
seconds gives its place up: else 64 silent clients of 16 addresses would hold all of them for 15 s.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from proxy import clock
from proxy.downstream.admission import TurnedAway
from proxy.http1.handshake_line import HandshakeLine
from proxy.identity.client_key import Client

if TYPE_CHECKING:
    from proxy.downstream.tls import TlsLayer

_TOTAL: Final = 64  # at once: §1.2
_PER_ADDRESS: Final = 4
#: With a client's answer, while others wait: a bad mobile network's round trip, several times.
_PATIENCE_S: Final = 3.0


class Handshakes:
    """Of all listeners. `begun_total` and `done_total` count since start."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turned_away: TurnedAway) -> None:
        self.loop = loop
        self.turned_away = turned_away
        self.line: HandshakeLine[TlsLayer] = HandshakeLine(_TOTAL, _PER_ADDRESS)
        self.begun_total = 0
        self.done_total = 0
        self._scheduled = False

    def arrive(self, layer: "TlsLayer", asker: Client) -> None:
        """A client has said all of its first word: its handshake begins when it may."""
        layer.line_key = asker.key
        self.line.arrive(asker.key, layer, capped=not (asker.trusted or asker.address_exempt))
        self._schedule()

    def over(self, layer: "TlsLayer") -> None:
        """It is done, or will not be; twice is harmless."""
        key, layer.line_key = layer.line_key, None
        if key is not None:
            self.line.leave(key, layer)
            self._schedule()

    def turn(self, now: float) -> None:
        """Take the places of clients that let others wait."""
        for layer in self.line.yielding(now - _PATIENCE_S):
            self.turned_away.count("handshake_place")
            layer.give_up()

    def _schedule(self) -> None:
        if not self._scheduled and self.line.may_begin:
            self._scheduled = True
            self.loop.call_soon(self._begin_one)

    def _begin_one(self) -> None:
        self._scheduled = False
        layer = self.line.begin(clock.now())
        if layer is not None:
            self.begun_total += 1
            try:
                layer.begin()
            finally:
                self._schedule()
