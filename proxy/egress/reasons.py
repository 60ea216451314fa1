"""Why the way out answered by itself (behaviour.md §10). The other reasons are `errors.Reason`, which renders these, too."""

from enum import Enum
from typing import Self


class EgressReason(Enum):
    """`value` is what the outside sees; `status` and `text` what the homeserver is told. `retry`: with hints."""

    status: int
    errcode: str
    text: str
    retry: bool

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
        reason.status, reason.errcode, reason.text, reason.retry = status, errcode, text, status >= 500
        return reason
