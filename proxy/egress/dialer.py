"""Resolve, check, connect to exactly what was checked (behaviour.md §7.4).

A name is resolved once per dial; each address is judged; a socket is connected to the very numbers that were judged, so what
a name becomes afterwards does not matter. Among the allowed addresses both families are tried, each next one 0.25 s after the
last or as soon as that failed (RFC 8305). Every wait ends: look-up and connect each by their timeout.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Final

from proxy.egress.reasons import EgressReason
from proxy.egress.resolver import Resolver, ResolverBusyError, UnresolvedError
from proxy.policies.address_guard import REFUSED_PORTS, AddressGuard
from proxy.want_of_descriptors import is_for_want_of_descriptors

_NEXT_AFTER_S: Final = 0.25
_MAX_ADDRESSES: Final = 8
_V6_PREFIX: Final = 64


class DialError(Exception):
    """No connection; `reason` is what is told."""

    def __init__(self, reason: EgressReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Dialer:
    """The only maker of connections of the way out; `own` is the place where it listens itself."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        resolver: Resolver,
        guard: AddressGuard,
        connect_timeout_s: float,
    ) -> None:
        self._loop = loop
        self._resolver = resolver
        self.guard = guard
        self.connect_timeout_s = connect_timeout_s
        self.own: tuple[str, int] | None = None

    async def addresses(self, host: str, port: int) -> list[str]:
        """Give the allowed addresses of a normal host, families by turns.

        Raises:
            DialError: if the port or all addresses are refused, or the name has none or cannot be looked up.
        """
        if port in REFUSED_PORTS:
            raise DialError(EgressReason.PORT_REFUSED)
        try:
            found = [host] if _is_literal(host) else await self._resolver.resolve(host)
        except UnresolvedError:
            raise DialError(EgressReason.HOST_UNRESOLVED) from None
        except ResolverBusyError:
            raise DialError(EgressReason.RESOLVER_BUSY) from None
        except OSError:
            raise DialError(EgressReason.NO_DESCRIPTORS) from None
        allowed = [text for text in found if self.guard.allows(text) and not self._is_own(text, port)]
        if not allowed:
            raise DialError(EgressReason.ADDRESS_REFUSED)
        return _by_turns(allowed)[:_MAX_ADDRESSES]

    def _is_own(self, address: str, port: int) -> bool:
        """Tell whether a connection would come back to us."""
        if self.own is None or port != self.own[1]:
            return False
        return address == self.own[0] or ipaddress.ip_address(address).is_loopback

    async def connect(
        self, addresses: list[str], port: int, new: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.Transport, str]:
        """Connect to one of `addresses`, which `addresses` gave; give the transport and which one it was.

        Raises:
            DialError: if none accepts within the timeout.
        """
        try:
            async with asyncio.timeout(self.connect_timeout_s):
                sock, address = await self._first(addresses, port)
        except OSError as error:  # a TimeoutError is one
            ours = is_for_want_of_descriptors(error)
            reason = EgressReason.NO_DESCRIPTORS if ours else EgressReason.HOST_UNREACHABLE
            raise DialError(reason) from None
        making = self._loop.create_task(self._loop.create_connection(new, sock=sock))
        try:
            transport, _ = await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_abort)  # the transport owns the socket now; only it may close it
            raise
        return transport, address

    async def _first(self, addresses: list[str], port: int) -> tuple[socket.socket, str]:
        """Race; whoever connects first wins, all others are closed."""
        tries: dict[asyncio.Task[socket.socket], str] = {}
        left = list(addresses)
        won: asyncio.Task[socket.socket] | None = None
        try:
            while won is None:
                if left:
                    task = self._loop.create_task(self._try(left[0], port))
                    tries[task] = left.pop(0)
                running = [task for task in tries if not task.done()]
                if not running and not left:
                    raise _most_telling([task.exception() for task in tries])
                if running:
                    await asyncio.wait(
                        running,
                        timeout=_NEXT_AFTER_S if left else None,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                won = next((task for task in tries if task.done() and task.exception() is None), None)
            return won.result(), tries[won]
        finally:
            for task in tries:
                if task is not won:
                    task.cancel()
                    task.add_done_callback(_close)

    async def _try(self, address: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await self._loop.sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock


def _most_telling(errors: list[BaseException | None]) -> OSError:
    """Give our own want of descriptors, if that was one of them: with one more the host might have accepted."""
    of_hosts = ConnectionError(errno.ECONNREFUSED, "none accepts")
    return next((e for e in errors if isinstance(e, OSError) and is_for_want_of_descriptors(e)), of_hosts)


def _abort(task: "asyncio.Task[tuple[asyncio.Transport, asyncio.BaseProtocol]]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result()[0].abort()


def _close(task: "asyncio.Task[socket.socket]") -> None:
    """Close what a try that lost the race had connected."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _by_turns(addresses: Iterable[str]) -> list[str]:
    """Order as given, but the two families by turns, beginning with the first one's."""
    every = list(addresses)
    first = [text for text in every if (":" in text) == (":" in every[0])]
    other = [text for text in every if (":" in text) != (":" in every[0])]
    ordered: list[str] = []
    for place in range(max(len(first), len(other))):
        ordered += first[place : place + 1] + other[place : place + 1]
    return ordered


def address_key(address: str) -> str:
    """Name what counts as one address: a v6 one by its network of a site."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address, _V6_PREFIX), strict=False))
