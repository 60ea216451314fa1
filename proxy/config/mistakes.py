"""One mistake in a configuration, in the words an operator reads."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

#: Where a value is: keys of mappings and indexes of lists, from the top.
Location = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_KEY_MAX_CHARACTERS = 60
_SHOWN_MAX_CHARACTERS = 40
_SHOWN_MAX_NUMBER = 10**18


@dataclass(frozen=True, slots=True)
class Mistake:
    """`path` is a key's (`listen[0].address`), a variable's name, or empty for the file; `line` is from 1."""

    path: str
    line: int | None
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text} (did you mean {self.nearest}?)" if self.nearest else text

    def with_line(self) -> str:
        """Write it for who has no place for the line beside it."""
        return str(self) if self.line is None else f"line {self.line}: {self}"


def path_text(location: Iterable[str | int]) -> str:
    """Write a location as an operator would; a key that is not a plain word comes in quotes, escaped."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{_key_text(key)}" for key in location)
    return "".join(parts).removeprefix(".")


def _key_text(key: str) -> str:
    if len(key) > _KEY_MAX_CHARACTERS:
        key = f"{key[:_KEY_MAX_CHARACTERS]}..."
    return key if _PLAIN_KEY.fullmatch(key) else json.dumps(key)


def shown(value: object) -> str:
    """Describe a wrong value in a few words, never longer than a line and without control characters."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"{str(value).lower()} (yes, no, on and off mean true and false in YAML)"
        case str():
            cut = value if len(value) <= _SHOWN_MAX_CHARACTERS else f"{value[:_SHOWN_MAX_CHARACTERS]}..."
            return f"the text {json.dumps(cut)}"
        case int() | float() if abs(value) > _SHOWN_MAX_NUMBER:
            return "a number that large"
        case int() | float():
            return str(value)
        case dict():
            return "a section"
        case _:
            return "a list"
