"""Settings that are right and dangerous: what is allowed to whom that hardly anybody means to; pure."""

import ipaddress
from collections.abc import Iterator

from proxy.addresses import parse_listen_address
from proxy.config.mistakes import Location
from proxy.config.settings import Settings

_FOR_EVERYBODY = {
    ("clients", "trusted_proxies"): "believes every client what it says its address is; name only the proxies in front",
    ("egress", "clients"): "lets everybody who reaches egress.listen use it; name only the homeserver's addresses",
    ("egress", "allow"): "lets the way out reach this machine, private networks and metadata services; name only what must be",
}  # fmt: skip


def warnings(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Yield where each is, and what it means, in plain words."""
    lists = (settings.clients.trusted_proxies, settings.egress.clients, settings.egress.allow)
    for (place, words), texts in zip(_FOR_EVERYBODY.items(), lists, strict=True):
        for index, text in enumerate(texts):
            if _is_everybody(text):
                yield (*place, index), f"{text} {words}"
    if settings.admin.token is None and not _is_private(settings.admin.listen):
        yield (
            ("admin", "listen"),
            "others than this machine can reach it, and without admin.token whoever does sees accounts and can reload",
        )


def _is_everybody(text: str) -> bool:
    try:
        return ipaddress.ip_network(text).prefixlen == 0
    except ValueError:
        return False  # `unix`


def _is_private(listen: str) -> bool:
    """Tell whether only this machine reaches it; of a name but localhost that is not known."""
    address = parse_listen_address(listen)
    if address.path is not None or address.host is None:
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host.lower() == "localhost"
