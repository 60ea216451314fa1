"""The settings file, read from disk and checked whole; what is wrong comes as one `ConfigError`."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from proxy.config.document import MAX_CHARACTERS
from proxy.config.mistakes import Location, Mistake, shown
from proxy.config.parse import Parsed, parse_placed
from proxy.config.settings import Settings
from proxy.config.warnings import warnings
from proxy.downstream.tls_context import CertificateError, TlsContexts


class ConfigError(Exception):
    """A file cannot be read or is wrong; `mistakes` has every reason, never none."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("; ".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes


class Loaded(NamedTuple):
    """Settings, and what is right and dangerous in them."""

    settings: Settings
    warnings: tuple[Mistake, ...]


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read and check the file, the environment's overrides applied, and the certificates it names. Raises ConfigError."""
    return load_with_warnings(path, environment).settings


def load_with_warnings(path: Path, environment: Mapping[str, str] = os.environ) -> Loaded:
    """Do the same, and tell what is dangerous. Raises ConfigError."""
    result = parse_placed(_text(path), environment)
    if not isinstance(result, Parsed):
        raise ConfigError(result)
    settings, places = result.settings, result.places
    mistakes = tuple(places.mistake(*amiss) for amiss in _certificates_amiss(settings))
    if mistakes:
        raise ConfigError(mistakes)
    dangers = [*warnings(settings), *_folders_amiss(settings)]
    return Loaded(settings, tuple(places.mistake(*danger) for danger in dangers))


def _certificates_amiss(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Try the certificates and keys of each listener."""
    for index, place in enumerate(settings.listen):
        if place.tls is not None:
            try:
                TlsContexts(place.tls)
            except CertificateError as error:
                yield ("listen", index, "tls"), str(error)


def _folders_amiss(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Look for the folder of what is only opened later, and missed then without a word to who started it."""
    trace = settings.log.trace
    if trace is not None and not Path(trace).parent.is_dir():
        yield ("log", "trace"), f"there is no folder {shown(str(Path(trace).parent))}, so nothing is recorded"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            # One more than is allowed, so that the check of the size sees it; bounded for /dev/zero too.
            content = file.read(MAX_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a file name"
        raise ConfigError((Mistake("", None, f"cannot be read: {reason}"),)) from error
    if len(content) > MAX_CHARACTERS:
        raise ConfigError((Mistake("", None, "is larger than 1 MiB, so it cannot be a settings file"),))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError((Mistake("", line, "is not UTF-8 text"),)) from error
