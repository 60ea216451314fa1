"""Why the way out answered by itself, and how that becomes bytes (behaviour.md §10). The other reasons are `errors.Reason`."""

import random
from enum import Enum
from http import HTTPStatus
from typing import Protocol, Self


class Told(Protocol):
    """A reason that can be told: `proxy.errors.Reason` and `EgressReason`."""

    status: int
    errcode: str
    text: str

    @property
    def value(self) -> str:
        """The label for client, log, metric and status."""


class EgressReason(Enum):
    """`value` is what the outside sees; `status` and `text` what the homeserver is told."""

    status: int
    errcode: str
    text: str

    ADDRESS_REFUSED = ("address_refused", 403, "M_FORBIDDEN", "egress.allow does not name this address")
    PORT_REFUSED = ("port_refused", 403, "M_FORBIDDEN", "No HTTP is spoken to this port")
    HOST_UNRESOLVED = ("host_unresolved", 502, "M_LIMIT_EXCEEDED", "The host's name does not resolve")
    HOST_UNREACHABLE = ("host_unreachable", 502, "M_LIMIT_EXCEEDED", "The host cannot be connected to")
    ORIGIN_CLOSED = ("origin_closed", 502, "M_LIMIT_EXCEEDED", "The host closed without an answer")
    ORIGIN_BROKEN = ("origin_broken", 502, "M_LIMIT_EXCEEDED", "The host's answer is malformed")
    ORIGIN_TIMEOUT = ("origin_timeout", 504, "M_LIMIT_EXCEEDED", "The host did not answer in time")
    GATEWAY_REFUSED = ("gateway_refused", 503, "M_LIMIT_EXCEEDED", "This gateway could not be reached lately")
    GATEWAY_BUSY = ("gateway_busy", 503, "M_LIMIT_EXCEEDED", "Too many deliveries are under way")
    NO_DESCRIPTORS = ("no_descriptors", 503, "M_LIMIT_EXCEEDED", "The proxy has too many files open")
    RESOLVER_BUSY = ("resolver_busy", 503, "M_LIMIT_EXCEEDED", "Too many names are being looked up")

    def __new__(cls, label: str, status: int, errcode: str, text: str) -> Self:
        """Make `EgressReason("gateway_busy")` and `reason.value` the label, with the rest as attributes."""
        reason = object.__new__(cls)
        reason._value_ = label
        reason.status, reason.errcode, reason.text = status, errcode, text
        return reason


_HINTED = frozenset({502, 503, 504})
_HINT_S = (1.0, 60.0)
_FIELDS = (
    b"Access-Control-Allow-Origin: *\r\n"
    b"Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n"
    b"Access-Control-Allow-Headers: X-Requested-With, Content-Type, Authorization, Date\r\n"
    b"Access-Control-Expose-Headers: Retry-After, Fairgate-Reason\r\n"
    b"Cache-Control: no-store\r\n"
)


def told_bytes(reason: Told, *, close: bool, head_only: bool = False, retry_after_s: float = 5.0) -> bytes:
    """Render one answer whole; with a 502, 503 or 504 go hints of 1 to 60 s, spread by half."""
    hint, retry_field = b"", ""
    if reason.status in _HINTED:
        spread_s = retry_after_s * random.uniform(0.75, 1.25)  # noqa: S311  (spreads, hides nothing)
        milliseconds = round(1000 * max(_HINT_S[0], min(_HINT_S[1], spread_s)))
        hint = b"Retry-After: %d\r\n" % -(-milliseconds // 1000)
        retry_field = f',"retry_after_ms":{milliseconds}'
    body = f'{{"errcode":"{reason.errcode}","error":"{reason.text}"{retry_field}}}'.encode()
    return b"".join(
        (
            b"HTTP/1.1 %d %s\r\n" % (reason.status, HTTPStatus(reason.status).phrase.encode()),
            b"Content-Type: application/json\r\n" + _FIELDS,
            b"Fairgate-Reason: %s\r\n" % reason.value.encode(),
            hint,
            b"Connection: close\r\n" if close else b"",
            b"Content-Length: %d\r\n\r\n" % len(body),
            b"" if head_only else body,
        )
    )
