"""Mistakes no single key shows: two listeners in one place, or Fairgate forwarding to itself; pure."""

import ipaddress
from collections.abc import Iterator
from itertools import combinations

from proxy.addresses import Address, parse_homeserver_url, parse_listen_address
from proxy.config.mistakes import Location
from proxy.config.settings import Settings


def clashes(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Yield the location of each clash and what is wrong, in plain words."""
    listeners = list(_listeners(settings))
    for (_, one_name, one), (location, _, other) in combinations(listeners, 2):
        if _covers(one, other) or _covers(other, one):
            yield location, f"is the same place as {one_name}; each listener needs its own port"
    homeserver = parse_homeserver_url(settings.homeserver.url)
    for _, name, address in listeners:
        if _covers(address, homeserver) and (address.host == homeserver.host or _is_here(homeserver.host)):
            yield (
                ("homeserver", "url"),
                f"is where Fairgate itself listens ({name}); requests would never end",
            )


def _listeners(settings: Settings) -> Iterator[tuple[Location, str, Address]]:
    for index, listen in enumerate(settings.listen):
        yield ("listen", index, "address"), f"listen[{index}].address", parse_listen_address(listen.address)
    if settings.egress.listen is not None:
        address = parse_listen_address(settings.egress.listen.address)
        yield ("egress", "listen", "address"), "egress.listen.address", address
    yield ("admin", "listen"), "admin.listen", parse_listen_address(settings.admin.listen)
    yield ("metrics", "listen"), "metrics.listen", parse_listen_address(settings.metrics.listen)


def _covers(listener: Address, target: Address) -> bool:
    """Say whether what `target` names can be this listener's; the kernel keeps 0.0.0.0 and [::] apart."""
    if listener.path is not None or target.path is not None:
        return listener.path == target.path
    if listener.port != target.port or listener.port == 0 or listener.host is None or target.host is None:
        return False
    if listener.host.lower() == target.host.lower():
        return True
    every = _ip(listener.host)
    if every is None or not every.is_unspecified:
        return False
    other = _ip(target.host)
    return target.host.lower() == "localhost" if other is None else other.version == every.version


def _is_here(host: str | None) -> bool:
    if host is None:
        return True
    address = _ip(host)
    return host.lower() == "localhost" if address is None else address.is_loopback or address.is_unspecified


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
