"""Notices clients that leave while their connection is not being read.

A paused transport sees neither FIN nor RST. One epoll of our own watches the paused sockets for these alone; its descriptor
is readable when one of them hangs up, so the event loop wakes within a millisecond.
"""

import array
import asyncio
import fcntl
import select
import termios
from typing import Protocol

_HANGUP = select.EPOLLRDHUP | select.EPOLLET  # EPOLLHUP and EPOLLERR are always reported
_GONE = select.EPOLLHUP | select.EPOLLERR


class Watched(Protocol):
    """What is told of a hang-up."""

    def hung_up(self, *, gone: bool, unread_bytes: int) -> None:
        """`gone`: nothing can be sent either. `unread_bytes` still lie in the kernel."""


class HangupWatcher:
    """Watches connections by descriptor; who is watched must be forgotten before its socket closes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._watched: dict[int, Watched] = {}
        self._descriptors: dict[Watched, int] = {}
        loop.add_reader(self._epoll.fileno(), self._ready)

    def watch(self, connection: Watched, descriptor: int, *, ended: bool = False) -> None:
        """Begin to watch a paused connection, or one whose client has `ended` its stream and may still reset it."""
        self.forget(connection)
        self._watched[descriptor] = connection
        self._descriptors[connection] = descriptor
        self._epoll.register(descriptor, select.EPOLLET if ended else _HANGUP)

    def forget(self, connection: Watched) -> None:
        """Watch it no longer."""
        descriptor = self._descriptors.pop(connection, None)
        if descriptor is not None:
            del self._watched[descriptor]
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching all."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _ready(self) -> None:
        for descriptor, events in self._epoll.poll(0):
            connection = self._watched.get(descriptor)
            if connection is not None:
                connection.hung_up(gone=bool(events & _GONE), unread_bytes=unread_bytes(descriptor))


def unread_bytes(descriptor: int) -> int:
    """Give how much of what a client sent lies in the kernel."""
    size = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, size)
    return size[0]
