"""Log lines on stderr, JSON or for a console, in which no token and no control character ever appears.

Everything goes through one chain, what libraries log through `logging` included: secrets are dropped by key
and redacted in text, and each value is made printable, so that nothing a client sends can forge or break a
line. Which requests get a line is not decided here.
"""

import contextlib
import logging
import re
import sys
from collections.abc import Mapping
from typing import TextIO, cast
from urllib.parse import unquote_to_bytes

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from proxy.observability.log_lines import LogLines
from proxy.observability.settings import LogSettings

REDACTED = "<redacted>"
#: Characters of a request target in a line; enough for every path of the specification with its query.
TARGET_MAX_CHARACTERS = 512

_SECRET = b"access_token"
_SECRET_KEYS = frozenset(
    {"authorization", "access_token", "refresh_token", "login_token", "as_token", "hs_token", "token"}
)
#: Parameters of a query whose values let somebody in: of logins, of confirmations by mail, of registrations.
_SECRET_PARAMETERS = frozenset(
    {b"token", b"client_secret", b"logintoken", b"login_token", b"refresh_token", b"code", b"state"}
)
#: Decoded more often than a server would, for proxies that decode once more.
_DECODINGS = 3
#: Deeper values than this are told as text.
_MAX_DEPTH = 6
_PRINTABLE = range(0x20, 0x7F)
_BACKSLASH = 0x5C
#: Twisted also splits a query at `;`, a careless client writes a second `?`.
_SEPARATORS = re.compile(rb"([?;#])")
_SECRET_IN_TEXT = re.compile(
    r"((?:access|refresh|login|as|hs)_token[\"']?\s*[=:]\s*|\bbearer\s+)[^\s&,}\])]+", re.IGNORECASE
)
#: What Synapse's and MAS's tokens look like wherever they stand; an account may be called so.
_TOKEN_IN_TEXT = re.compile(r"(?<![@\w])(?:sy[trl]|m(?:at|ct|pt|ar|cr))_[A-Za-z0-9_+/=-]{8,}")


def configure_logs(settings: LogSettings, lines: LogLines | None = None) -> None:
    """Send structlog's and `logging`'s lines through one chain to `lines`, else to stderr at once; may be called again."""
    stream = cast(TextIO, lines or _Lines(sys.stderr))
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
        structlog.processors.format_exc_info,
        printable_values,
    ]
    last = _last_processors(settings)
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _LineLogger(stream),
        cache_logger_on_first_use=False,
    )
    _route_logging(stream, level, shared, last)


class _LineLogger:
    """Writes finished lines. structlog's own takes a lock that a thread can take only once, and finalizers log, too."""

    __slots__ = ("_stream",)

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()

    debug = info = warning = error = critical = msg


class _Lines:
    """Lines to `stream`. One that cannot be written (a full disk, a reader that is gone) is lost; what it told of goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def _last_processors(settings: LogSettings) -> list[Processor]:
    if settings.format == "json":
        return [structlog.processors.JSONRenderer()]
    return [_fold_exception, structlog.dev.ConsoleRenderer(colors=False)]


def _route_logging(stream: TextIO, level: int, shared: list[Processor], last: list[Processor]) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *shared, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def printable_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Drop what is keyed as a secret, and make every other value text without controls, a number or null."""
    return {
        _printable(key): _printable_lines(value) if key == "exception" else _clean(value, 0)
        for key, value in event.items()
        if key.lower() not in _SECRET_KEYS
    }


def _clean(value: object, depth: int) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _printable(value)
        case bytes():
            return _printable(value.decode(errors="backslashreplace"))
        case Mapping() if depth < _MAX_DEPTH:
            return {
                _printable(str(key)): _clean(inner, depth + 1)
                for key, inner in value.items()
                if str(key).lower() not in _SECRET_KEYS
            }
        case list() | tuple() | set() | frozenset() if depth < _MAX_DEPTH:
            return [_clean(inner, depth + 1) for inner in value]
        case _:
            return _printable(str(value))


def _printable(text: str) -> str:
    text = _TOKEN_IN_TEXT.sub(REDACTED, _SECRET_IN_TEXT.sub(rf"\1{REDACTED}", text))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _printable_lines(value: object) -> str:
    return "\n".join(_printable(line) for line in str(value).split("\n"))


def _fold_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Mark every line of a traceback, so that none can pass for a line of the log."""
    if "exception" in event:
        event["exception"] = "    | " + str(event["exception"]).replace("\n", "\n    | ")
    return event


def redact_target(target: bytes) -> str:
    """Write a request target for people: no access token, printable ASCII, at most TARGET_MAX_CHARACTERS.

    A token is hidden however its parameter's name is encoded, whichever of `&` and `;` the homeserver splits
    at, and also inside another value. Where it is unclear how far a token goes, all up to the next `&` goes.
    """
    text = _escaped(b"&".join(_without_token(piece) for piece in target.split(b"&")))
    if len(text) <= TARGET_MAX_CHARACTERS:
        return text
    return f"{text[: TARGET_MAX_CHARACTERS - 3]}..."


def _without_token(piece: bytes) -> bytes:
    kept: list[bytes] = []
    for part in _SEPARATORS.split(piece):
        if _SECRET in _decoded(part):
            name, separator, _ = part.partition(b"=")
            # An encoded `=` before the first plain one may have the token in front of it.
            name = _SECRET if b"=" in _decoded(name) or not separator else name
            return b"".join([*kept, name, b"=", REDACTED.encode()])
        name, separator, _ = part.partition(b"=")
        if separator and _decoded(name) in _SECRET_PARAMETERS:
            return b"".join([*kept, name, b"=", REDACTED.encode()])
        kept.append(part)
    return piece


def _decoded(text: bytes) -> bytes:
    for _ in range(_DECODINGS):
        if b"%" not in text:
            break
        text = unquote_to_bytes(text)
    return text.lower()


def _escaped(text: bytes) -> str:
    return "".join(
        "\\\\" if byte == _BACKSLASH else chr(byte) if byte in _PRINTABLE else f"\\x{byte:02x}"
        for byte in text
    )
