"""Where a request may go: to the public internet, and to what the operator named; nowhere else (behaviour.md §7.4). Pure.

Promise: an address is reachable only if it is global unicast and hides no other one, or lies in a network of
`egress.allow`. The tables are ours, not Python's, whose idea of "global" differs by version:

    IPv4    everything but the special-purpose blocks (RFC 6890 and its registry), and one public metadata address
    IPv6    2000::/3 only, without its special-purpose blocks
    forms   IPv6 addresses that hold an IPv4 one (mapped, compatible, translated, 6to4, NAT64, Teredo, ISATAP) need the
            form's network in `egress.allow`, and the address inside must be allowed for itself

Metadata addresses of cloud providers need an entry of their own: a broad network in `egress.allow` does not open them. The
unspecified address, which reaches this machine, is never allowed. Ports of mail, shells and the like are refused, so that
nobody speaks HTTP to a server that takes it for something else. Resolving, and connecting to exactly what was asked about
here, is the caller's.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

IPv4 = ipaddress.IPv4Address
IPv6 = ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SPECIAL_V4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this machine
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_SPECIAL_V6: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
#: Networks of forms, and where the IPv4 address stands: bits from the right, and whether it is written inverted.
_FORMS: Final = tuple(
    (ipaddress.IPv6Network(block), shift, inverted)
    for block, shift, inverted in (
        ("::/96", 0, False),  # compatible
        ("::ffff:0:0/96", 0, False),  # mapped
        ("::ffff:0:0:0/96", 0, False),  # translated
        ("64:ff9b::/96", 0, False),  # NAT64
        ("64:ff9b:1::/48", 0, False),  # NAT64, of the site
        ("2002::/16", 80, False),  # 6to4
        ("2001::/32", 0, True),  # Teredo
    )
)
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
_LOW_32_BITS: Final = 0xFFFF_FFFF

#: Ports no HTTP server listens at, where what does could be made to act by the words of a request.
REFUSED_PORTS: Final = frozenset(
    {0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110}
    | {111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530, 531}
    | {532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190}
    | {5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 11211}
)  # fmt: skip


class AddressGuard:
    """The rule for one set of networks that the operator allows."""

    def __init__(self, allow: Iterable[Network] = ()) -> None:
        self._allow = tuple(allow)

    def allows(self, text: str) -> bool:
        """Tell whether an address, written in numbers, may be connected to. A zone makes it another address: refused."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        if isinstance(address, IPv6) and address.scope_id is not None:
            return False
        return self._allows(address)

    def _allows(self, address: IPv4 | IPv6) -> bool:
        if address.is_unspecified:
            return False
        named = any(address in network for network in self._allow if network.version == address.version)
        if address in _METADATA:
            return any(network.num_addresses == 1 and address in network for network in self._allow)
        if isinstance(address, IPv4):
            return named or not any(address in block for block in _SPECIAL_V4)
        inner = hidden_v4(address)
        if inner is not None and not self._allows(inner):
            return False
        return named or (address in _GLOBAL_V6 and not any(address in block for block in _SPECIAL_V6))


def hidden_v4(address: IPv6) -> IPv4 | None:
    """Give the IPv4 address that an IPv6 one stands for; None where it stands for itself."""
    number = int(address)
    for network, shift, inverted in _FORMS:
        if address in network and number > 1:  # `::1` is loopback, no form
            inner = (number >> shift) & _LOW_32_BITS
            return IPv4(inner ^ _LOW_32_BITS if inverted else inner)
    if (number >> 32) & _LOW_32_BITS in _ISATAP:
        return IPv4(number & _LOW_32_BITS)
    return None
