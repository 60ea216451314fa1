"""The settings file, read from disk and checked whole; what is wrong comes as one `ConfigError`."""

import os
from collections.abc import Mapping
from pathlib import Path

from proxy.config.document import MAX_CHARACTERS
from proxy.config.mistakes import Mistake
from proxy.config.parse import parse
from proxy.config.settings import Settings
from proxy.downstream.tls_context import CertificateError, TlsContexts


class ConfigError(Exception):
    """A file cannot be read or is wrong; `mistakes` has every reason, never none."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("; ".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read and check the file, the environment's overrides applied, and the certificates it names. Raises ConfigError."""
    result = parse(_text(path), environment)
    mistakes = _certificates_amiss(result) if isinstance(result, Settings) else result
    if isinstance(result, Settings) and not mistakes:
        return result
    raise ConfigError(mistakes)


def _certificates_amiss(settings: Settings) -> tuple[Mistake, ...]:
    """Try the certificates and keys of each listener."""
    mistakes = []
    for index, place in enumerate(settings.listen):
        if place.tls is not None:
            try:
                TlsContexts(place.tls)
            except CertificateError as error:
                mistakes.append(Mistake(f"listen[{index}].tls", None, str(error)))
    return tuple(mistakes)


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
