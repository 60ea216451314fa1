"""Names to addresses, in threads of our own, so that slow names of others' choosing delay nobody's.

uvloop's own look-ups share two threads of libuv: two names that do not answer would stop all. Here are `_THREADS`, of which
names that were not quick last time may have `_FOR_UNKNOWN` at once. One look-up of a name is under way at a time. A thread
cannot be stopped: it counts until it ends by itself, and is a daemon so that the process need not wait for it. Time
spent waiting for a thread is ours, not the name's: it ends in `ResolverBusyError`, which teaches nothing.
"""

import asyncio
import contextlib
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, TypeVar

from proxy.want_of_descriptors import is_for_want_of_descriptors

#: Blocking: host to addresses in numbers, best first. Raises OSError where it has none.
Lookup = Callable[[str], list[str]]

T = TypeVar("T")
_THREADS: Final = 16
_FOR_UNKNOWN: Final = 12
_QUICK_S: Final = 1.0
_KEPT_S: Final = 5.0
_MAX_KEPT: Final = 1024
_MAX_WAITING: Final = 1024


class UnresolvedError(Exception):
    """The name has no address, or none in time."""


class ResolverBusyError(Exception):
    """No thread became free for it in time."""


def system_lookup(host: str) -> list[str]:
    """Ask the system: hosts file, DNS, in its order of preference (RFC 6724)."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(sockaddr[0]) for _, _, _, _, sockaddr in found))


class _Asked:
    """One look-up: waiting, running, or done."""

    __slots__ = ("answer", "host", "started", "started_at", "wanted")

    def __init__(self, host: str, loop: asyncio.AbstractEventLoop) -> None:
        self.host = host
        self.wanted = 0
        self.started = asyncio.Event()
        self.started_at = 0.0
        self.answer: asyncio.Future[list[str]] = loop.create_future()


class Resolver:
    """All look-ups of one process."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float], lookup: Lookup, timeout_s: float
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._lookup = lookup
        self.timeout_s = timeout_s
        self._asked: dict[str, _Asked] = {}
        self._line: deque[_Asked] = deque()
        self.running = 0
        self._running_unknown = 0
        self._quick: OrderedDict[str, None] = OrderedDict()
        self._kept: OrderedDict[str, tuple[float, list[str]]] = OrderedDict()

    async def resolve(self, host: str) -> list[str]:
        """Give the addresses of a name.

        Raises:
            UnresolvedError: if there are none, or none within the timeout.
            ResolverBusyError: if its turn did not come.
            OSError: for want of descriptors of ours, which says nothing about the name.
        """
        kept = self._kept.get(host)
        if kept is not None and self._clock() - kept[0] < _KEPT_S:
            return kept[1]
        asked = self._asked.get(host) or self._ask(host)
        asked.wanted += 1
        self._start_next()
        try:
            try:
                async with asyncio.timeout(self.timeout_s):
                    await asked.started.wait()
            except TimeoutError:
                raise ResolverBusyError from None
            left_s = asked.started_at + self.timeout_s - self._clock()
            try:
                async with asyncio.timeout(max(0.0, left_s)):
                    return await asyncio.shield(asked.answer)
            except OSError as error:  # a TimeoutError is one
                if is_for_want_of_descriptors(error):
                    raise
                raise UnresolvedError from None
        finally:
            asked.wanted -= 1

    def _ask(self, host: str) -> _Asked:
        if len(self._line) >= _MAX_WAITING:
            raise ResolverBusyError
        asked = self._asked[host] = _Asked(host, self._loop)
        asked.answer.add_done_callback(_look_at)
        self._line.append(asked)
        return asked

    def _start_next(self) -> None:
        """Start what may run now; a known quick name passes those that have to wait."""
        for asked in list(self._line):
            quick = asked.host in self._quick
            if self.running >= _THREADS:
                return
            if asked.wanted == 0:
                self._line.remove(asked)  # nobody waits for it any more
                del self._asked[asked.host]
            elif quick or self._running_unknown < _FOR_UNKNOWN:
                self._line.remove(asked)
                self._start(asked, quick=quick)

    def _start(self, asked: _Asked, *, quick: bool) -> None:
        self.running += 1
        self._running_unknown += not quick
        asked.started_at = self._clock()
        asked.started.set()

        def run() -> None:
            try:
                found: list[str] | OSError = self._lookup(asked.host)
            except OSError as error:
                found = error
            except UnicodeError as error:  # of the library's own idea of names
                found = OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._done, asked, found, quick)

        threading.Thread(target=run, name="fairgate-resolve", daemon=True).start()

    def _done(self, asked: _Asked, found: list[str] | OSError, quick: bool) -> None:  # noqa: FBT001  (of a callback)
        now = self._clock()
        self.running -= 1
        self._running_unknown -= not quick
        del self._asked[asked.host]
        if isinstance(found, list) and found:
            asked.answer.set_result(found)
            _keep(self._kept, asked.host, (now, found))
        else:
            asked.answer.set_exception(found if isinstance(found, OSError) else OSError("no address"))
        if now - asked.started_at < _QUICK_S and isinstance(found, list):
            _keep(self._quick, asked.host, None)
        else:
            self._quick.pop(asked.host, None)
        self._start_next()


def _keep(known: "OrderedDict[str, T]", host: str, value: T) -> None:
    known[host] = value
    known.move_to_end(host)
    if len(known) > _MAX_KEPT:
        known.popitem(last=False)


def _look_at(answer: "asyncio.Future[list[str]]") -> None:
    """Take note of an error that nobody waits for."""
    if not answer.cancelled():
        answer.exception()
