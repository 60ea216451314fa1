"""Listening sockets that were open before this process: the protocol of sd_listen_fds(3).

Whoever starts us holds them open, so what clients connect while no process is there waits in the kernel. A socket is the
listener's whose address in the settings is the socket's own. The settings stay the one place that says where to listen and
what is spoken there; names (LISTEN_FDNAMES) appear in errors only.
"""

import ipaddress
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final

from proxy.addresses import Address, parse_listen_address

FIRST_DESCRIPTOR: Final = 3
_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class HandOverError(Exception):
    """What was handed over cannot be used; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """One listening socket, and where it is."""

    listening: socket.socket
    address: Address
    name: str

    def __str__(self) -> str:
        return f"{self.address} ({self.name})" if self.name else str(self.address)


class HandedOverSockets:
    """All of them; each is taken once. Closing what was taken is the taker's, and closes it for nobody else."""

    def __init__(self, sockets: list[HandedOver]) -> None:
        self._left = sockets

    def take(self, place: str) -> list[socket.socket]:
        """Give those at a place to listen at; a host name stands for each of its addresses."""
        address = parse_listen_address(place)
        if not self._left or address.port == 0:
            return []
        hosts = _hosts(address)
        taken = [one for one in self._left if _is_at(one.address, address, hosts)]
        self._left = [one for one in self._left if one not in taken]
        return [one.listening for one in taken]

    def demand_all_taken(self) -> None:
        """Nobody would ever accept what is connected to the others.

        Raises:
            HandOverError: if some were not taken.
        """
        if self._left:
            told = ", ".join(map(str, self._left))
            raise HandOverError(
                f"sockets were handed over at addresses that no listener in the settings has: {told}; "
                "write the same address in both"
            )


def take_over(environment: MutableMapping[str, str]) -> HandedOverSockets:
    """Take what is meant for this process, and remove the variables: they are for nobody else, whatever they say.

    Raises:
        HandOverError: if the variables cannot be read, or a descriptor is no listening stream socket.
    """
    pid, number, names = (environment.pop(name, "") for name in _VARIABLES)
    if not number or pid != str(os.getpid()):
        return HandedOverSockets([])
    if not number.isascii() or not number.isdigit():
        raise HandOverError(f"LISTEN_FDS is no number: {number!a}")
    told = names.split(":")
    return HandedOverSockets(
        [_socket(FIRST_DESCRIPTOR + n, told[n] if n < len(told) else "") for n in range(int(number))]
    )


def _socket(descriptor: int, name: str) -> HandedOver:
    which = f"descriptor {descriptor} ({name})" if name else f"descriptor {descriptor}"
    try:
        listening = socket.socket(fileno=descriptor)
    except OSError as error:
        raise HandOverError(f"{which} was handed over, but cannot be used: {error.strerror}") from None
    os.set_inheritable(descriptor, False)
    if (
        listening.family not in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
        or listening.type != socket.SOCK_STREAM
        or not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    ):
        listening.close()
        raise HandOverError(
            f"{which} was handed over, but is no listening stream socket: ListenStream= and Accept=no"
        )
    return HandedOver(listening, _address(listening), name)


def _address(listening: socket.socket) -> Address:
    where = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return Address(path=os.fsdecode(where))
    return Address(host=where[0], port=where[1])


def _is_at(here: Address, wanted: Address, hosts: set[str]) -> bool:
    if wanted.path is not None:
        return here.path == wanted.path
    return here.port == wanted.port and here.host in hosts


def _hosts(address: Address) -> set[str]:
    """Give the IP addresses a host stands for, as the kernel writes them."""
    if address.host is None:
        return set()
    try:
        return {str(ipaddress.ip_address(address.host))}
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(where[0]) for *_, where in found}
