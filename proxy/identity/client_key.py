"""Who the client is by address: the client key that anonymous requests are counted under (behaviour.md §2.1, §2.2). Pure.

Whoever speaks is believed about the one before while it is a trusted proxy: the peer first, then the entries of the one
forwarding header from the right. The first who is not trusted is the client, and so is a trusted one that names nobody usable.
A header from anyone else is ignored; from a private, loopback or Unix peer it means most likely that the operator forgot to
name an ingress: see `suspected_ingress`.

Bound: two times `_GENERATION` clients are remembered, and header values of at most `_MEMORABLE_BYTES`. A client whose
address was seen lately costs one look-up in a dict, one seen through a proxy two.
"""

import ipaddress
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from proxy.identity.forwarded import READERS
from proxy.identity.networks import UNIX, Address, Networks, parse_address

if TYPE_CHECKING:
    from proxy.identity.principal import Principal

_GENERATION: Final = 8192
_MEMORABLE_BYTES: Final = 256
_MAX_HOPS: Final = 32  # of trusted proxies behind each other
#: Where an ingress that nobody configured would speak from. Ours, since `is_private` differs between Pythons and counts
#: networks of documentation; with the shared space of RFC 6598, which clusters use for their pods.
_NEARBY: Final = Networks(
    (
        "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "::1/128", "fc00::/7", "fe80::/10", UNIX,
    )
)  # fmt: skip
_NO_NETWORKS: Final = Networks(())
#: What a homeserver is told about the peer of a Unix socket: it is on this machine.
_UNIX_ADDRESS: Final = b"127.0.0.1"

K = TypeVar("K")
V = TypeVar("V")


class Client:
    """One client by address. Shared by all its requests while it is remembered; not to be changed.

    `key` is what it counts under: `192.0.2.1`, `2001:db8:1:2::/64` or `unix`. `address` is the whole address for
    `X-Forwarded-For`. `trusted` says that the *peer* is a trusted proxy, `exempt` that the client's network is exempt from
    all rules, `address_exempt` from those by address; `proto` is the scheme that `Forwarded` told. `anonymous` is kept for
    `identity.principal`.
    """

    __slots__ = (
        "_http",
        "_https",
        "address",
        "address_exempt",
        "anonymous",
        "exempt",
        "key",
        "proto",
        "suspected_ingress",
        "trusted",
    )

    def __init__(
        self,
        key: str,
        address: bytes,
        *,
        trusted: bool,
        exempt: bool,
        suspected_ingress: bool,
        proto: bytes | None,
    ) -> None:
        self.key = key
        self.address = address
        self.trusted = trusted
        self.exempt = exempt
        self.suspected_ingress = suspected_ingress
        self.address_exempt = exempt or suspected_ingress
        self.proto = proto
        self.anonymous: Principal | None = None
        self._http = self._https = b""

    def __repr__(self) -> str:
        return f"<Client {self.key}>"

    @property
    def peer(self) -> str:
        """What `ClientKeys.resolve` takes for it."""
        return UNIX if self.key == UNIX else self.address.decode("ascii")

    def fields(self, proto: bytes) -> bytes:
        """Give X-Forwarded-For and -Proto for the homeserver, each behind its CR LF; `proto` as `scheme` tells it."""
        fields = self._https if proto == b"https" else self._http
        if not fields:
            fields = b"\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: %b" % (self.address, proto)
            if proto == b"https":
                self._https = fields
            else:
                self._http = fields
        return fields

    def scheme(self, values: Sequence[bytes], own: bytes) -> bytes:
        """Give `http` or `https`: what a trusted proxy says in one exact X-Forwarded-Proto or in Forwarded, else `own`."""
        if self.trusted:
            if len(values) == 1 and values[0] in (b"http", b"https"):
                return values[0]
            if self.proto is not None:
                return self.proto
        return own


class ClientKeys:
    """Resolves clients for one set of settings."""

    def __init__(
        self,
        *,
        trusted_proxies: Networks,
        forwarded_header: str = "X-Forwarded-For",
        ipv6_prefix: int = 64,
        exempt: Networks = _NO_NETWORKS,
    ) -> None:
        """Take the settings; `forwarded_header` is one of `forwarded.READERS`."""
        self._trusted = trusted_proxies
        self._entries = READERS[forwarded_header]
        self._ipv6_prefix = ipv6_prefix
        self._exempt = exempt
        self._peers: _Remembered[str, Client] = _Remembered()
        self._suspects: _Remembered[str, Client] = _Remembered()
        #: By what a trusted proxy's header says; None where it names nobody usable. Not by the proxy, since all are believed.
        self._named: _Remembered[bytes, Client | None] = _Remembered()

    def resolve(self, peer: str, values: Sequence[bytes] = ()) -> Client:
        """Give who asks. `peer` is the socket's (or PROXY header's) address or `unix`, `values` the forwarding header's fields.

        Raises:
            ValueError: if `peer` is neither an address nor `unix`.
        """
        client = self._peers.young.get(peer) or self._peer(peer)
        if not values:
            return client
        if client.trusted:
            value = values[0] if len(values) == 1 else b",".join(values)
            named = self._named.young.get(value) or self._name(value)
            return named or client
        return self._suspect(peer, client)

    def _peer(self, peer: str) -> Client:
        client = self._peers.find(peer)
        if client is None:
            address = _address_of(peer)
            client = self._client(address, trusted=address in self._trusted)
            self._peers.keep(peer, client)
        return client

    def _suspect(self, peer: str, client: Client) -> Client:
        """Give the client that an untrusted peer is when it sends a forwarding header."""
        address = _address_of(peer)
        if address not in _NEARBY:
            return client
        suspect = self._suspects.find(peer)
        if suspect is None:
            suspect = self._client(address, suspected_ingress=True)
            self._suspects.keep(peer, suspect)
        return suspect

    def _name(self, value: bytes) -> Client | None:
        """Find who a trusted proxy speaks for, or None where it names nobody usable."""
        if len(value) > _MEMORABLE_BYTES:
            return self._read(value)
        if value in self._named:
            return self._named.find(value)
        client = self._read(value)
        self._named.keep(value, client)
        return client

    def _read(self, value: bytes) -> Client | None:
        found: Address | None = None
        found_proto = None
        for address, proto in islice(self._entries(value), _MAX_HOPS):
            if address is None:
                break
            found, found_proto = address, proto
            if address not in self._trusted:
                break
        return None if found is None else self._client(found, trusted=True, proto=found_proto)

    def _client(
        self,
        address: Address | None,
        *,
        trusted: bool = False,
        suspected_ingress: bool = False,
        proto: bytes | None = None,
    ) -> Client:
        return Client(
            key_of(address, self._ipv6_prefix),
            _UNIX_ADDRESS if address is None else str(address).encode("ascii"),
            trusted=trusted,
            exempt=address in self._exempt,
            suspected_ingress=suspected_ingress,
            proto=proto,
        )


def key_of(address: Address | None, ipv6_prefix: int) -> str:
    """Give the client key of an address; None stands for a Unix peer."""
    if address is None:
        return UNIX
    if address.version == 4:
        return str(address)
    return str(ipaddress.IPv6Network((int(address), ipv6_prefix), strict=False))


def _address_of(peer: str) -> Address | None:
    if peer == UNIX:
        return None
    address = parse_address(peer)
    if address is None:
        raise ValueError("a peer is an address or `unix`")
    return address


class _Remembered(Generic[K, V]):
    """What was made lately, in two generations: when the young one is full it becomes the old one, and that is forgotten."""

    __slots__ = ("_old", "young")

    def __init__(self) -> None:
        self.young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __contains__(self, key: K) -> bool:
        return key in self.young or key in self._old

    def find(self, key: K) -> V | None:
        """Give what was made of `key`, None if that is forgotten."""
        found = self.young.get(key)
        if found is None and key in self._old:
            found = self._old[key]
            self.keep(key, found)
        return found

    def keep(self, key: K, value: V) -> None:
        """Remember what was made of `key`."""
        if len(self.young) >= _GENERATION:
            self._old = self.young
            self.young = {}
        self.young[key] = value
