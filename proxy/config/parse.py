"""Configuration text and environment into `Settings`, or every mistake at once; pure.

An empty text, an empty section and a missing key mean the defaults. Values are taken strictly: `"20000"` is
text and `yes` is true, neither is a number. The environment is applied over the file and then the whole is
checked, so a value is judged once, and a mistake is shown where it was made: the line in the file, or the
variable's name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from proxy.config.clashes import clashes
from proxy.config.document import Document, read_document
from proxy.config.environment import override
from proxy.config.mistakes import Location, Mistake, path_text, shown
from proxy.config.schema import (
    annotation_at,
    field_at,
    is_secret,
    keys_at,
    list_item,
    nearest_key,
    nearest_word,
    section,
    step,
)
from proxy.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Parsed:
    """Settings, and where each value was set."""

    settings: Settings
    places: "Places"


def parse(text: str, environment: Mapping[str, str]) -> Settings | tuple[Mistake, ...]:
    """Return the settings, or every mistake, the file's by line before the environment's."""
    result = parse_placed(text, environment)
    return result.settings if isinstance(result, Parsed) else result


def parse_placed(text: str, environment: Mapping[str, str]) -> Parsed | tuple[Mistake, ...]:
    """Do the same, with the places of the values."""
    document = read_document(text)
    tree = _top(document)
    variables, mistakes = override(tree, environment)
    mistakes = document.mistakes + mistakes
    places = Places(document.lines, variables)
    try:
        settings = Settings.model_validate(_for_validation(tree, Settings), strict=True)
    except ValidationError as error:
        told = error.errors(include_url=False)
        mistakes += [_mistake(details, places) for details in told if _is_news(details, document)]
    else:
        mistakes += [places.mistake(location, message) for location, message in clashes(settings)]
        if not mistakes:
            settings.note_environment(map(path_text, variables))
            return Parsed(settings, places)
    return tuple(sorted(mistakes, key=_place_in_report))


def _place_in_report(mistake: Mistake) -> tuple[bool, int]:
    return mistake.line is None and bool(mistake.path), mistake.line or 0


def _is_news(details: ErrorDetails, document: Document) -> bool:
    """Say no where the value was not read at all, and where a list is short only of good entries."""
    short_by_bad_entries = details["type"] == "too_short" and len(details["input"]) > 0
    return details["loc"] not in document.unread and not short_by_bad_entries


def _top(document: Document) -> dict[str, object]:
    if document.tree is None:
        return {}
    if isinstance(document.tree, dict):
        return document.tree
    line = document.lines.get(())
    document.mistakes.append(Mistake("", line, f"must be sections with keys, not {shown(document.tree)}"))
    return {}


def _for_validation(value: object, annotation: Any) -> object:
    """Leave out sections and lists that say nothing; make lists tuples, which is what the settings hold."""
    if isinstance(value, list):
        return tuple(_for_validation(item, list_item(annotation)) for item in value)
    if isinstance(value, dict):
        return {
            key: _for_validation(inner, step(annotation, key))
            for key, inner in value.items()
            if inner is not None or not _is_composed(step(annotation, key))
        }
    return value


def _is_composed(annotation: Any) -> bool:
    return section(annotation) is not None or list_item(annotation) is not None


class Places:
    """Where each value was set: the line of its nearest known part above, or the variable that set it."""

    def __init__(self, lines: Mapping[Location, int], variables: Mapping[Location, str]) -> None:
        self._lines = lines
        self._variables = variables

    def mistake(self, location: Location, message: str, nearest: str | None = None) -> Mistake:
        """Give a mistake of the value there, with its line or its variable."""
        for depth in range(len(location), 0, -1):
            variable = self._variables.get(location[:depth])
            if variable is not None:
                rest = path_text(location[depth:])
                join = "." if rest and not rest.startswith("[") else ""
                return Mistake(f"{variable}{join}{rest}", None, message, nearest)
        return Mistake(path_text(location), self._line(location), message, nearest)

    def _line(self, location: Location) -> int | None:
        for depth in range(len(location), 0, -1):
            if location[:depth] in self._lines:
                return self._lines[location[:depth]]
        return None


def _mistake(details: ErrorDetails, places: Places) -> Mistake:
    location, kind = details["loc"], details["type"]
    if kind == "extra_forbidden":
        nearest = nearest_key(location)
        message = "is not a known key"
        if nearest is None:
            message += f"; known here: {', '.join(keys_at(location[:-1]))}"
        return places.mistake(location, message, nearest)
    words = _WORDS.get(kind, _other_words)
    return places.mistake(location, words(details), _nearest_choice(details))


def _nearest_choice(details: ErrorDetails) -> str | None:
    if details["type"] != "literal_error" or not isinstance(details["input"], str):
        return None
    return nearest_word(details["input"], _choices(details))


def _choices(details: ErrorDetails) -> list[str]:
    return [str(choice) for choice in getattr(annotation_at(details["loc"]), "__args__", ())]


def _not_this(prefix: str, limit: str = "") -> Callable[[ErrorDetails], str]:
    def words(details: ErrorDetails) -> str:
        bound = f" {details['ctx'][limit]:g}" if limit else ""
        if is_secret(details["loc"]):
            return f"{prefix}{bound}"
        return f"{prefix}{bound}, not {shown(details['input'])}"

    return words


def _text_words(details: ErrorDetails) -> str:
    """Say what a text needs, from all that is declared of its key, whatever of it is missing."""
    field = field_at(details["loc"])
    declared = {**details["ctx"]}
    for metadata in field.metadata if field is not None else ():
        declared |= {name: value for name in _OF_TEXT if (value := getattr(metadata, name, None)) is not None}
    least, most, pattern = (declared.get(name) for name in _OF_TEXT)
    sort = "characters" if pattern is None else _PATTERNS.get(pattern, f"characters as in {pattern}")
    if most is None:
        return "must not be empty" if least == 1 else f"needs at least {least} {sort}"
    return f"needs {least or 0} to {most} {sort}"


_OF_TEXT = ("min_length", "max_length", "pattern")
_PATTERNS = {r"^[!-~]+$": "visible ASCII characters, no space among them"}


def _other_words(details: ErrorDetails) -> str:
    return details["msg"].replace("Input should be", "must be")


_WORDS: Mapping[str, Callable[[ErrorDetails], str]] = {
    "int_type": _not_this("must be a whole number"),
    "float_type": _not_this("must be a number"),
    "string_type": lambda details: (
        "must be text, in quotes where it is a number or a word of YAML's"
        if is_secret(details["loc"])
        else f"must be text, not {shown(details['input'])}"
    ),
    "string_too_short": _text_words,
    "string_too_long": _text_words,
    "string_pattern_mismatch": _text_words,
    "bool_type": _not_this("must be true or false"),
    "finite_number": _not_this("must be a finite number"),
    "greater_than": _not_this("must be more than", "gt"),
    "greater_than_equal": _not_this("must be at least", "ge"),
    "less_than": _not_this("must be less than", "lt"),
    "less_than_equal": _not_this("must be at most", "le"),
    "model_type": _not_this("must be a section with keys"),
    "tuple_type": _not_this("must be a list"),
    "too_short": lambda _: "must have at least one entry",
    "missing": lambda _: "is missing, and has no default",
    "value_error": lambda details: str(details["ctx"]["error"]),
    "literal_error": lambda details: (
        f"must be one of {', '.join(_choices(details))}, not {shown(details['input'])}"
    ),
}
