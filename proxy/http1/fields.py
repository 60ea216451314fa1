"""Which header fields matter to a proxy, and how they are found without looking at the others.

One regular expression runs over a head in lower case and finds framing, hop-by-hop and forwarding fields only; everything
else stays what it is, a slice of the raw bytes. Names with `_` for `-` are found too: some servers take them for the same.
"""

import re
from itertools import groupby
from typing import Final

#: Fields that end at each hop (RFC 9110 §7.6.1), and those by which others would say who the client is: we say it.
_DROPPED = [
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "http2-settings",
    "x-forwarded",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-forwarded-by",
    "x-forwarded-ssl",
    "x-forwarded-scheme",
    "x-forwarded-prefix",
    "x-forwarded-client-cert",
    "x-original-forwarded-for",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
]
_RESPONSE = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
]

#: What a field is; those from FIRST_DROPPED on never go on.
(
    HOST, CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, REQUEST_ID, AUTHORIZATION, IMITATION,
    CONNECTION, UPGRADE, FORWARDED_FOR, FORWARDED, FORWARDED_PROTO, FAIRGATE_CLASS, DROP,
) = range(14)  # fmt: skip
FIRST_DROPPED = CONNECTION
_READ = {
    "host": HOST,
    "content-length": CONTENT_LENGTH,
    "transfer-encoding": TRANSFER_ENCODING,
    "expect": EXPECT,
    "x-request-id": REQUEST_ID,
    "authorization": AUTHORIZATION,
    "connection": CONNECTION,
    "upgrade": UPGRADE,
    "x-forwarded-for": FORWARDED_FOR,
    "forwarded": FORWARDED,
    "x-forwarded-proto": FORWARDED_PROTO,
    "fairgate-class": FAIRGATE_CLASS,
}
_IMITATED = ("host", "content-length", "transfer-encoding", "connection", "expect", "upgrade")


def _alternatives(names: list[str]) -> str:
    """Group by first letter, so that most names are passed over at their first byte."""
    groups = groupby(sorted(names), key=lambda name: name[0])
    return "|".join(f"{letter}(?:{'|'.join(name[1:] for name in group)})" for letter, group in groups)


#: In a head in lower case: the fields that matter, as (name, value) with the spaces around the value.
SPECIAL = re.compile(rf"\r\n({_alternatives([*_DROPPED, *_READ])}):([^\r]*)".replace("-", "[-_]").encode())


def _spellings(name: str) -> list[bytes]:
    """Give `name` with each of its hyphens as it is, or as an underscore."""
    first, *others = name.split("-")
    spellings = [first]
    for part in others:
        spellings = [f"{spelling}{mark}{part}" for spelling in spellings for mark in "-_"]
    return [spelling.encode() for spelling in spellings]


#: The same for responses, where fewer matter.
RESPONSE_SPECIAL = re.compile(rf"\r\n({_alternatives(_RESPONSE)}):([^\r]*)".replace("-", "[-_]").encode())

#: Name in lower case → what it is; a framing field spelled with `_` is an IMITATION, and nobody's friend.
CODES: dict[bytes, int] = {
    **{spelling: DROP for name in (*_DROPPED, *_READ) for spelling in _spellings(name)},
    **{spelling: IMITATION for name in _IMITATED for spelling in _spellings(name)},
    **{name.encode(): code for name, code in _READ.items()},
}

#: What may stand between the CR LF pairs of a head: `head.translate(None, TEXT)` must leave those pairs alone.
TEXT = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))


#: `length` of a chunked body; other lengths are bytes.
CHUNKED: Final = -1
#: Of `Content-Length`: below 2**63, so no server can overflow on it.
MAX_LENGTH_DIGITS: Final = 18
#: Of `Connection`, over all its fields: each may name a field to look for.
MAX_OPTIONS = 32
NO_OPTIONS: Final[frozenset[bytes]] = frozenset()


def connection_options(values: list[bytes]) -> frozenset[bytes]:
    """Give the options of all `Connection` fields, whose values are in lower case."""
    known = _EVERYDAY_OPTIONS.get(values[0])
    if known is not None and len(values) == 1:
        return known
    return frozenset(option.strip(b" \t") for option in b",".join(values).split(b",")) - {b""}


_EVERYDAY_OPTIONS = {option: frozenset({option}) for option in (b"keep-alive", b"close", b"upgrade")}


def without(head: bytes, dropped: list[re.Match[bytes]]) -> bytes:
    """Cut the fields that SPECIAL found out of the head it found them in (or its original, in any case)."""
    if not dropped:
        return head
    start = 0
    pieces = []
    for field in dropped:
        pieces.append(head[start : field.start()])
        start = field.end()
    pieces.append(head[start:])
    return b"".join(pieces)


def without_nominated(head: bytes, options: frozenset[bytes]) -> bytes:
    """Leave out the fields that `Connection` names, but never what others rely on (§9.2), nor the line before the fields."""
    nominated = {name for name in options if name not in _END_TO_END and not name.startswith(b"content-")}
    line, *fields = head.split(b"\r\n")
    kept = [field for field in fields if field.partition(b":")[0].lower() not in nominated]
    return b"\r\n".join([line, *kept])


ORDINARY_OPTIONS = frozenset({b"close", b"keep-alive", b"upgrade"})
_END_TO_END = frozenset(
    {b"authorization", b"host", b"transfer-encoding", b"x-request-id", b"close", b"keep-alive"}
)
