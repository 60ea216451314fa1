"""Where a socket is, as an operator writes it: `host:port`, `[v6]:port` or `unix:/path`.

Pure, and the one reader of such texts: the settings' validators call it to refuse a bad one with its line,
and whoever opens the socket calls it again for the parts. Every `ValueError` raised here is a sentence an
operator can act on, and none repeats what was written, since a URL may hold a password.
"""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

#: The kernel keeps 108 bytes for a Unix socket's path, the last one a NUL.
UNIX_PATH_MAX_BYTES = 107
MAX_PORT = 65_535
HTTP_PORT = 80
HTTPS_PORT = 443

_HOST_MAX_CHARACTERS = 253
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?", re.ASCII)
_LOOKS_LIKE_V4 = re.compile(r"[0-9.]+", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_UNFIT = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Address:
    """Either `host` (a v6 one without brackets) and `port`, or `path` of a Unix socket; the rest is None. `tls`: by https."""

    host: str | None = None
    port: int | None = None
    path: str | None = None
    tls: bool = False

    @property
    def origin(self) -> str:
        """What a URL there begins with; of a Unix socket, what stands for it."""
        if self.path is not None:
            return "http://localhost"
        return f"{'https' if self.tls else 'http'}://{self}"

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if self.host is not None and ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_listen_address(text: str) -> Address:
    """Read a place to listen at; port 0 asks the kernel for a free one. Raises ValueError."""
    if text.startswith("unix:"):
        return _unix(text)
    if "://" in text:
        raise ValueError("is a URL; write host:port without a scheme, for example 127.0.0.1:8010")
    host, port = _host_and_port(text)
    if port is None:
        raise ValueError("has no port; write host:port, for example 127.0.0.1:8010")
    return Address(host=host, port=port)


def parse_homeserver_url(text: str) -> Address:
    """Read `http://host[:port]` (80 where none is written), `https://…` (443) or `unix:/path`. Raises ValueError."""
    if text.startswith("unix:"):
        return _unix(text)
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ValueError("is not a URL; write http://host:port, https://host:port or unix:/path")
    tls = scheme.lower() == "https"
    if not tls and scheme.lower() != "http":
        raise ValueError("has an unknown scheme; write http://host:port, https://host:port or unix:/path")
    host, port = _host_and_port(_bare_authority(rest))
    if port == 0:
        raise ValueError("port 0 cannot be connected to; write the port the homeserver listens at")
    if port is None:
        port = HTTPS_PORT if tls else HTTP_PORT
    return Address(host=host, port=port, tls=tls)


def _bare_authority(rest: str) -> str:
    """`host[:port]` of what follows the scheme; one `/` after it says nothing and is allowed."""
    if "\\" in rest or _UNFIT.search(rest):
        raise ValueError("contains a space, a control character or a backslash")
    try:
        parts = urlsplit(f"//{rest}")
    except ValueError:
        raise ValueError("has a host in brackets that is not an IPv6 address") from None
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password")
    if "?" in rest or "#" in rest:
        raise ValueError("must not have a query or a fragment")
    if parts.path not in ("", "/"):
        raise ValueError("must not have a path: requests keep their own; write http://host:port only")
    return parts.netloc


def _unix(text: str) -> Address:
    path = text.removeprefix("unix:")
    if not path.startswith("/"):
        raise ValueError("a Unix socket needs an absolute path: unix:/run/name.sock")
    if path.startswith("//"):
        raise ValueError("a Unix socket is written with one slash: unix:/run/name.sock")
    if path.endswith("/"):
        raise ValueError("names a directory; a Unix socket needs a file name: unix:/run/name.sock")
    if re.search(r"[\x00-\x1f\x7f]", path):
        raise ValueError("the path of the Unix socket contains a control character")
    if len(path.encode(errors="surrogateescape")) > UNIX_PATH_MAX_BYTES:
        raise ValueError(f"the path of a Unix socket may have at most {UNIX_PATH_MAX_BYTES} bytes")
    return Address(path=path)


def _host_and_port(text: str) -> tuple[str, int | None]:
    if _UNFIT.search(text):
        raise ValueError("contains a space or a control character")
    if text.startswith("["):
        return _bracketed(text)
    if text.count(":") > 1:
        raise ValueError("an IPv6 address needs brackets, for example [::1]:8010")
    host, separator, port = text.partition(":")
    return _checked_host(host), _checked_port(port) if separator else None


def _bracketed(text: str) -> tuple[str, int | None]:
    host, bracket, rest = text[1:].partition("]")
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError("has a host in brackets that is not an IPv6 address") from None
    if not bracket or (rest and not rest.startswith(":")):
        raise ValueError("is not an IPv6 address with a port; write [::1]:8010")
    return host, _checked_port(rest[1:]) if rest else None


def _checked_host(host: str) -> str:
    if not host:
        raise ValueError("has no host; write 127.0.0.1 for this machine, 0.0.0.0 or [::] for every interface")
    if host == "*":
        raise ValueError("does not know `*`; write 0.0.0.0 or [::] for every interface")
    if _LOOKS_LIKE_V4.fullmatch(host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError("has a host that is neither an IPv4 address nor a name") from None
    elif len(host) > _HOST_MAX_CHARACTERS or not _HOST_NAME.fullmatch(host):
        raise ValueError("has a host that is neither an IP address nor a name")
    return host


def _checked_port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > MAX_PORT:
        raise ValueError(f"has a port that is not a number from 0 to {MAX_PORT}")
    return int(text)
