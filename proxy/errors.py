"""Why Fairgate answered by itself: one enumeration for client, log, metric and status (behaviour.md §10).

Each reason carries the status and the Matrix error that the client sees; `refusal_bytes` is the only place where a
refusal becomes bytes. 400 is never used for overload and `M_UNKNOWN_TOKEN` is never made up: clients throw away
their session or their keys on these.
"""

from enum import Enum
from http import HTTPStatus
from typing import Protocol, Self


class Told(Protocol):
    """A reason that becomes an answer: `Reason`, and the way out's `egress.reasons.EgressReason`."""

    status: int
    errcode: str
    text: str
    retry: bool

    @property
    def value(self) -> str:
        """The label for client, log, metric and status."""


class Reason(Enum):
    """`value` is what the outside sees; `status` and `text` what a client is told. `retry` asks for hints."""

    status: int
    errcode: str
    text: str
    retry: bool

    # The request cannot be understood, or means different things to different servers (§9.3).
    BAD_REQUEST_LINE = ("bad_request_line", 400, "M_UNKNOWN", "The request line is malformed")
    BAD_TARGET = ("bad_target", 400, "M_UNKNOWN", "The request target is malformed")
    BAD_FIELD = ("bad_field", 400, "M_UNKNOWN", "A header field is malformed")
    BAD_HOST = ("bad_host", 400, "M_UNKNOWN", "Exactly one valid Host field is required")
    BAD_LENGTH = ("bad_length", 400, "M_UNKNOWN", "Content-Length is malformed or given twice")
    BAD_TRANSFER_CODING = (
        "bad_transfer_coding",
        400,
        "M_UNKNOWN",
        "Transfer-Encoding may only be chunked, on HTTP/1.1",
    )
    AMBIGUOUS_FRAMING = (
        "ambiguous_framing",
        400,
        "M_UNKNOWN",
        "Content-Length and Transfer-Encoding exclude each other",
    )
    BAD_CHUNK = ("bad_chunk", 400, "M_UNKNOWN", "The chunked body is malformed")
    UPGRADE_WITH_BODY = ("upgrade_with_body", 400, "M_UNKNOWN", "A websocket upgrade cannot have a body")
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        405,
        "M_UNRECOGNIZED",
        "CONNECT and TRACE are not served here",
    )
    HEAD_TIMEOUT = ("head_timeout", 408, "M_UNKNOWN", "The request did not arrive in time")
    BODY_TIMEOUT = ("body_timeout", 408, "M_UNKNOWN", "The request's body comes too slowly")
    BODY_TOO_LARGE = ("body_too_large", 413, "M_TOO_LARGE", "The request's body is too large")
    TARGET_TOO_LONG = ("target_too_long", 414, "M_UNKNOWN", "The request target is too long")
    HEAD_TOO_LARGE = (
        "head_too_large",
        431,
        "M_UNKNOWN",
        "The request has too many or too large header fields",
    )
    METHOD_UNKNOWN = ("method_unknown", 501, "M_UNRECOGNIZED", "This method is not known")
    VERSION_UNKNOWN = ("version_unknown", 505, "M_UNKNOWN", "Only HTTP/1.0 and HTTP/1.1 are served")
    MISSING_TOKEN = (
        "missing_token",
        401,
        "M_MISSING_TOKEN",
        "A body of this size needs an access token, given once",
    )
    PUSHERS_FULL = (
        "pushers_full",
        400,
        "M_INVALID_PARAM",
        "This account has as many pushers as it may have; remove one first",
    )
    IDENTITY_UNKNOWN = (
        "identity_unknown",
        503,
        "M_LIMIT_EXCEEDED",
        "The homeserver could not be asked whose the access token is",
        True,
    )
    # A fair share is used up (§4.5).
    LINE_FULL = (
        "line_full",
        429,
        "M_LIMIT_EXCEEDED",
        "Too many of your requests are waiting for the homeserver",
        True,
    )
    LINE_TIMEOUT = (
        "line_timeout",
        429,
        "M_LIMIT_EXCEEDED",
        "The homeserver is busy, and this request has waited in line as long as it may",
        True,
    )
    SYNC_DEVICE = ("sync_device", 429, "M_LIMIT_EXCEEDED", "Too many syncs of this device at once", True)
    SYNC_ACCOUNT = ("sync_account", 429, "M_LIMIT_EXCEEDED", "Too many syncs of this account at once", True)
    SYNC_TOTAL = ("sync_total", 429, "M_LIMIT_EXCEEDED", "Too many syncs across all accounts at once", True)
    BACKGROUND_LINE = (
        "background_line",
        429,
        "M_LIMIT_EXCEEDED",
        "Too many background requests of yours are waiting",
        True,
    )
    BACKGROUND_WAIT = (
        "background_wait",
        429,
        "M_LIMIT_EXCEEDED",
        "Background work has to wait; try again later",
        True,
    )
    TUNNELS_ACCOUNT = (
        "tunnels_account",
        429,
        "M_LIMIT_EXCEEDED",
        "Too many open websockets of this account",
        True,
    )
    TUNNELS_ADDRESS = (
        "tunnels_address",
        429,
        "M_LIMIT_EXCEEDED",
        "Too many open websockets of this address",
        True,
    )
    TUNNELS_TOTAL = ("tunnels_total", 429, "M_LIMIT_EXCEEDED", "Too many open websockets in all", True)
    # The homeserver cannot be used now (§10.1: same error code and hints as a rate limit, so that clients back off).
    UPSTREAM_UNREACHABLE = (
        "upstream_unreachable",
        502,
        "M_LIMIT_EXCEEDED",
        "The homeserver cannot be reached",
        True,
    )
    UPSTREAM_CLOSED = (
        "upstream_closed",
        502,
        "M_LIMIT_EXCEEDED",
        "The homeserver closed without an answer",
        True,
    )
    UPSTREAM_BROKEN = (
        "upstream_broken",
        502,
        "M_LIMIT_EXCEEDED",
        "The homeserver's answer is malformed",
        True,
    )
    SPOOL_FAILED = (
        "spool_failed",
        503,
        "M_LIMIT_EXCEEDED",
        "The request's body could not be kept until the homeserver has time for it",
        True,
    )
    SPOOL_FULL = (
        "spool_full",
        503,
        "M_LIMIT_EXCEEDED",
        "There is no room now to keep the request's body; try again later",
        True,
    )
    NO_DESCRIPTORS = (
        "no_descriptors",
        503,
        "M_LIMIT_EXCEEDED",
        "The proxy has too many files open to reach the homeserver",
        True,
    )
    UPSTREAM_BUSY = ("upstream_busy", 503, "M_LIMIT_EXCEEDED", "The homeserver is busy", True)
    STOPPING = ("stopping", 503, "M_LIMIT_EXCEEDED", "The proxy is being restarted", True)
    CONNECT_TIMEOUT = (
        "connect_timeout",
        504,
        "M_LIMIT_EXCEEDED",
        "The homeserver did not accept in time",
        True,
    )
    UPSTREAM_TIMEOUT = (
        "upstream_timeout",
        504,
        "M_LIMIT_EXCEEDED",
        "The homeserver did not answer in time",
        True,
    )

    def __new__(cls, label: str, status: int, errcode: str, text: str, retry: bool = False) -> Self:  # noqa: FBT001, FBT002 - a row of the table
        """Make `Reason("head_timeout")` and `reason.value` the label, with the rest as attributes."""
        reason = object.__new__(cls)
        reason._value_ = label
        reason.status, reason.errcode, reason.text, reason.retry = status, errcode, text, retry
        return reason


class Refused(Exception):  # noqa: N818  (a refusal is an answer, not a fault)
    """A pure module found a reason not to go on; carries nothing else."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


_CORS = (
    b"Access-Control-Allow-Origin: *\r\n"
    b"Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n"
    b"Access-Control-Allow-Headers: X-Requested-With, Content-Type, Authorization, Date\r\n"
    b"Access-Control-Expose-Headers: Retry-After, Fairgate-Reason\r\n"
)


def refusal_bytes(
    reason: Told, *, retry_after_s: float | None, close: bool, head_only: bool = False
) -> bytes:
    """Render one refusal whole. `retry_after_s` is in seconds, 1 to 60; both hints name the same moment."""
    hint = b""
    retry_field = ""
    if retry_after_s is not None:
        milliseconds = max(1000, min(60_000, round(retry_after_s * 1000)))
        hint = b"Retry-After: %d\r\n" % -(-milliseconds // 1000)
        retry_field = f',"retry_after_ms":{milliseconds}'
    body = f'{{"errcode":"{reason.errcode}","error":"{reason.text}"{retry_field}}}'.encode()
    phrase = HTTPStatus(reason.status).phrase.encode()
    return b"".join(
        (
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n" % (reason.status, phrase),
            _CORS,
            b"Cache-Control: no-store\r\nFairgate-Reason: %s\r\n" % reason.value.encode(),
            hint,
            b"Connection: close\r\n" if close else b"",
            b"Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS\r\n" if reason.status == 405 else b"",
            b"Content-Length: %d\r\n\r\n" % len(body),
            b"" if head_only else body,
        )
    )
