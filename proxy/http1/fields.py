"""Which header fields matter to a proxy, and how a name is recognised cheaply.

`field_code` answers with a small number: ORDINARY fields pass untouched, the others are framing, hop-by-hop or
forwarding fields. Spellings that clients really use are found by one dictionary look-up; every other name is checked
against the token grammar of RFC 9110 §5.6.2, so that nothing malformed is ever ORDINARY.
"""

import re

ORDINARY = 0
MALFORMED = 1
DROP = 2
HOST = 3
CONTENT_LENGTH = 4
TRANSFER_ENCODING = 5
CONNECTION = 6
EXPECT = 7
UPGRADE = 8
REQUEST_ID = 9

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

#: Fields that end at each hop (RFC 9110 §7.6.1) and those by which others would say who the client is; we say it.
_DROPPED = (
    "keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer http2-settings "
    "forwarded x-forwarded x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port x-forwarded-server "
    "x-forwarded-by x-forwarded-ssl x-forwarded-scheme x-forwarded-prefix x-forwarded-client-cert "
    "x-original-forwarded-for x-real-ip x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip "
    "fastly-client-ip"
).split()
_CODES = dict.fromkeys((name.encode() for name in _DROPPED), DROP) | {
    b"host": HOST,
    b"content-length": CONTENT_LENGTH,
    b"transfer-encoding": TRANSFER_ENCODING,
    b"connection": CONNECTION,
    b"expect": EXPECT,
    b"upgrade": UPGRADE,
    b"x-request-id": REQUEST_ID,
}
_COMMON = (
    "accept accept-encoding accept-language access-control-allow-headers access-control-allow-methods "
    "access-control-allow-origin access-control-expose-headers access-control-request-headers "
    "access-control-request-method authorization cache-control content-disposition content-encoding "
    "content-security-policy content-type cookie date dnt etag if-match if-none-match last-modified location origin "
    "pragma priority range referer sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-fetch-dest sec-fetch-mode "
    "sec-fetch-site sec-websocket-accept sec-websocket-key sec-websocket-protocol sec-websocket-version server "
    "synapse-trace-id user-agent vary x-content-type-options x-requested-with"
).split()


def _title(name: bytes) -> bytes:
    return b"-".join(part.capitalize() for part in name.split(b"-"))


#: Name as spelled on the wire → code, for the spellings seen every day.
KNOWN = {name.encode(): ORDINARY for name in _COMMON} | _CODES
KNOWN |= {_title(name): code for name, code in KNOWN.items()}
_FRAMING = frozenset({HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, EXPECT, UPGRADE})


def field_code(name: bytes) -> int:
    """Classify a name that KNOWN does not have. Underscores that imitate a known field are never let through."""
    if not _TOKEN.fullmatch(name):
        return MALFORMED
    lowered = name.lower()
    code = _CODES.get(lowered)
    if code is not None:
        return code
    if b"_" in lowered:
        imitated = _CODES.get(lowered.replace(b"_", b"-"), ORDINARY)
        return MALFORMED if imitated in _FRAMING else DROP if imitated == DROP else ORDINARY
    return ORDINARY


def connection_options(value: bytes) -> frozenset[bytes]:
    """Split a `Connection` value into its lower-cased options."""
    known = _COMMON_OPTIONS.get(value)
    if known is not None:
        return known
    return frozenset(option.strip(b" \t") for option in value.lower().split(b",")) - {b""}


_COMMON_OPTIONS = {
    b"keep-alive": frozenset({b"keep-alive"}),
    b"Keep-Alive": frozenset({b"keep-alive"}),
    b"close": frozenset({b"close"}),
    b"Upgrade": frozenset({b"upgrade"}),
    b"upgrade": frozenset({b"upgrade"}),
}


def may_be_nominated(name: bytes) -> bool:
    """Tell whether `Connection` may take this (lower-cased) field away: never what others rely on (§9.2)."""
    return name not in _END_TO_END and not name.startswith(b"content-")


_END_TO_END = frozenset({b"authorization", b"host", b"close", b"keep-alive", b"upgrade"})

#: In a head, everything that may stand between CR LF pairs: taking these bytes out must leave CR LF pairs only.
TEXT = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))


def has_only_whole_lines(head: bytes, lines: int) -> bool:
    """Tell whether the only controls in `head` are the `lines` CR LF pairs: no bare CR, bare LF, NUL or other."""
    return head.translate(None, TEXT) == b"\r\n" * lines
