"""Tells systemd how it goes, by the protocol of sd_notify(3): one datagram a state. Without one that asks, nothing is told."""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

from proxy import clock


class Notify:
    """`NOTIFY_SOCKET` and `WATCHDOG_USEC` of the environment, which are removed: nobody else speaks for this process."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        path = environment.pop("NOTIFY_SOCKET", "")
        #: `@` stands for the NUL that an abstract address begins with.
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self._alive_every_s = _watchdog_s(environment) / 2
        self._alive_at = 0.0

    def ready(self, status: str) -> None:
        """All listeners are open, or settings were read again. `status` is one line for an operator."""
        self._tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Settings are being read again; `ready` has to follow."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={int(clock.now() * 1e6)}")

    def stopping(self) -> None:
        """No new work is taken."""
        self._tell("STOPPING=1", "STATUS=Draining")

    def alive(self, now: float) -> None:
        """The event loop turns: told twice within the time after which systemd ends who is silent (`WatchdogSec`)."""
        if self._alive_every_s and now >= self._alive_at:
            self._alive_at = now + self._alive_every_s
            self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # Whoever asked may be gone; that ends nothing here.
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as telling,
        ):
            telling.sendto("\n".join(lines).encode(), self._address)


def _watchdog_s(environment: MutableMapping[str, str]) -> float:
    """Give the seconds of sd_watchdog_enabled(3); 0 where none are asked for, or of another process."""
    text, owner = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
    if not (text.isascii() and text.isdigit()) or owner not in ("", str(os.getpid())):
        return 0.0
    return int(text) / 1e6
