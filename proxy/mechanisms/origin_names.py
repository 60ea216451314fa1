"""A host and a port as they stand in URLs and in CONNECT, brought to one spelling. Pure.

Promise: two texts that reach the same name give the same string, and a text that servers or resolvers could read in two
ways gives None: decimal, octal and hexadecimal IPv4 (`2130706433`, `0177.0.0.1`, `0x7f.1`), zones, percent-encoding,
user names, anything but letters, digits, `-` and `_` in a label. Names outside ASCII must come as punycode.
"""

import ipaddress
import re

from proxy.addresses import MAX_PORT

_MAX_NAME_CHARACTERS = 253
_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}(?:\.[a-z0-9_][a-z0-9_-]{0,62})*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)


def normal_host(text: str) -> str | None:
    """Fold case, take off one trailing dot, compress an IPv6 address (brackets or none); None if it is no host."""
    host = text.lower()
    if ":" in host or host.startswith("["):
        return _v6(host)
    host = host.removesuffix(".")
    if len(host) > _MAX_NAME_CHARACTERS or not _NAME.fullmatch(host):
        return None
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # The C library would take this for an IPv4 address: only its one strict form is ours.
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    return host


def _v6(host: str) -> str | None:
    if host.startswith("["):
        if not host.endswith("]"):
            return None
        host = host[1:-1]
    if "%" in host:
        return None
    try:
        return str(ipaddress.IPv6Address(host))
    except ValueError:
        return None


def split_authority(text: str, default_port: int | None) -> tuple[str, int] | None:
    """Give the normal host and the port of `host[:port]`; None if it is neither, or has no port and no default.

    A bare IPv6 address with a port behind its last colon, as Synapse writes it in CONNECT, is taken as such.
    """
    if text.startswith("[") and text.endswith("]"):
        host_text, port_text = text, ""
    else:
        host_text, separator, port_text = text.rpartition(":")
        if not separator:
            host_text, port_text = text, ""
        elif not port_text:
            return None
    host = normal_host(host_text)
    port = default_port if not port_text else _port(port_text)
    if host is None or port is None:
        return None
    return host, port


def _port(text: str) -> int | None:
    if not _PORT.fullmatch(text) or not 0 < int(text) <= MAX_PORT:
        return None
    return int(text)


def written(host: str, port: int) -> str:
    """Write host and port as one text, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
