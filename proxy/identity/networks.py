"""Sets of networks, as operators write them, and whether an address is in one. Pure.

A network is `10.0.0.0/8`, `2001:db8::/32`, a single address, or `unix` for peers of Unix sockets. Addresses are reduced to
what they stand for: IPv4-mapped ones to IPv4, zones dropped. Asking costs one look-up for each *length* of prefix in the
set, however many networks have it.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Stands for the peer of a Unix socket, which has no address.
UNIX: Final = "unix"
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_LONGEST_ADDRESS: Final = 64  # characters, a zone included


def parse_address(text: str) -> Address | None:
    """Read an address without port or brackets; None where the text is none."""
    if len(text) > _LONGEST_ADDRESS:
        return None
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def parse_network(text: str) -> Network | None:
    """Read one network as an operator writes it; None for `unix`.

    Raises:
        ValueError: with a sentence for the operator.
    """
    if text == UNIX:
        return None
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(
            "is not a network; write 10.0.0.0/8, 2001:db8::/32, a single address, or unix for Unix sockets"
        ) from None
    if "%" in text:
        raise ValueError("has a zone; networks are written without")
    if "/" in text and ipaddress.ip_address(text.partition("/")[0]) != network.network_address:
        raise ValueError(f"has bits beyond its prefix; write {network}")
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        mapped = network.network_address.ipv4_mapped
        return ipaddress.IPv4Network(f"{mapped}/{network.prefixlen - 96}")
    return network


class Networks:
    """A set of networks. `unix` tells whether peers of Unix sockets are in it."""

    __slots__ = ("_v4", "_v6", "unix")

    def __init__(self, texts: Iterable[str]) -> None:
        """Read the networks; see `parse_network`."""
        texts = tuple(texts)
        self.unix = UNIX in texts
        networks = [network for network in map(parse_network, texts) if network is not None]
        self._v4 = _by_shift(network for network in networks if network.version == 4)
        self._v6 = _by_shift(network for network in networks if network.version == 6)

    def __contains__(self, address: Address | None) -> bool:
        """Tell whether an address is in one of the networks; None stands for a Unix peer."""
        if address is None:
            return self.unix
        number = int(address)
        return any(
            number >> shift in prefixes
            for shift, prefixes in (self._v4 if address.version == 4 else self._v6)
        )

    def __bool__(self) -> bool:
        return bool(self.unix or self._v4 or self._v6)


def _by_shift(networks: Iterable[Network]) -> tuple[tuple[int, frozenset[int]], ...]:
    """Give the prefixes by the number of bits they leave open."""
    found: dict[int, set[int]] = {}
    for network in networks:
        shift = network.max_prefixlen - network.prefixlen
        found.setdefault(shift, set()).add(int(network.network_address) >> shift)
    return tuple((shift, frozenset(prefixes)) for shift, prefixes in found.items())
