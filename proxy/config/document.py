"""YAML text into plain values, with the line of every one; pure, and bounded whatever the text is.

Only what a settings file needs is read: mappings, lists, texts, numbers, true, false and null. Values are
counted after aliases are followed, so that a bomb of aliases, a document that contains itself and a nest
without end all stop at `MAX_VALUES` or `MAX_DEPTH`. Dates stay text. Every mistake found is kept and reading
goes on.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from proxy.config.mistakes import Location, Mistake, path_text

#: Characters; the documented file has some 6,000.
MAX_CHARACTERS = 1_048_576
#: Values after following aliases; the whole settings tree has under a hundred.
MAX_VALUES = 10_000
#: Levels; the settings tree has four.
MAX_DEPTH = 32

_TAG = "tag:yaml.org,2002:"
_NUMBERS_AND_WORDS = frozenset({f"{_TAG}{name}" for name in ("null", "bool", "int", "float")})
_TEXTS = frozenset({f"{_TAG}{name}" for name in ("str", "timestamp", "merge", "value")})
_BARE_V6 = re.compile(r":\s+\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]:")


@dataclass(slots=True)
class Document:
    """`tree` is None for an empty text and for one that is no YAML; `lines` has each value's key's line."""

    tree: object = None
    lines: dict[Location, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    #: Values that could not be read: None stands for them in the tree, `mistakes` says why.
    unread: set[Location] = field(default_factory=set)


class _TooMuchError(Exception):
    """The document is larger than any settings can be; the text says how."""


def read_document(text: str) -> Document:
    """Read one YAML document; never raises."""
    document = Document()
    if len(text) > MAX_CHARACTERS:
        document.mistakes.append(Mistake("", None, "is larger than 1 MiB, so it cannot be a settings file"))
        return document
    try:
        node = yaml.compose(text, Loader=_BoundedLoader)
        if node is not None:
            document.tree = _Builder(document).value(node, (), 0)
    except yaml.YAMLError as error:
        document.mistakes.append(_syntax_mistake(error, text))
    except _TooMuchError as error:
        document.tree = None
        document.mistakes.append(Mistake("", None, str(error)))
    return document


class _BoundedLoader(yaml.SafeLoader):
    """Stops early: reading takes ten seconds for a full-sized file, and over linear time for a nest."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._nodes += 1
        self._depth += 1
        _check_bounds(self._nodes, self._depth)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Builder:
    """Walks the nodes of one document, filling its lines and mistakes."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._scalars = yaml.constructor.SafeConstructor()
        self._values = 0

    def value(self, node: yaml.Node, location: Location, depth: int) -> object:
        self._values += 1
        _check_bounds(self._values, depth)
        self._document.lines.setdefault(location, _line(node))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, location, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, (*location, index), depth + 1) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, location)
        return self._unread(location, node, "has a tag that is not supported here")

    def _mapping(self, node: yaml.MappingNode, location: Location, depth: int) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._mistake(
                    location, _line(key_node), "has a key that is a list or a section; keys are words"
                )
                continue
            key = str(key_node.value)
            inner = (*location, key)
            if key in result:
                first = self._document.lines[inner]
                self._mistake(inner, _line(key_node), f"is set twice; the first time in line {first}")
                continue
            self._document.lines[inner] = _line(key_node)
            result[key] = self.value(value_node, inner, depth + 1)
        return result

    def _scalar(self, node: yaml.ScalarNode, location: Location) -> object:
        if node.tag in _TEXTS:
            return str(node.value)
        if node.tag not in _NUMBERS_AND_WORDS:
            return self._unread(location, node, "has a tag that is not supported here")
        try:
            return self._scalars.construct_object(node)
        except (ValueError, LookupError):
            return self._unread(location, node, "is not a value YAML can read")

    def _unread(self, location: Location, node: yaml.Node, message: str) -> object:
        self._document.unread.add(location)
        self._mistake(location, _line(node), message)
        return None

    def _mistake(self, location: Location, line: int, message: str) -> None:
        self._document.mistakes.append(Mistake(path_text(location), line, message))


def _check_bounds(values: int, depth: int) -> None:
    if values > MAX_VALUES:
        raise _TooMuchError(f"has more than {MAX_VALUES} values, aliases followed")
    if depth > MAX_DEPTH:
        raise _TooMuchError(f"is nested more than {MAX_DEPTH} levels deep, or contains itself")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax_mistake(error: yaml.YAMLError, text: str) -> Mistake:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Mistake("", line, "is not YAML: it contains a control character")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line_number = None if mark is None else int(mark.line) + 1
    problem = str(getattr(error, "problem", None) or "it cannot be read").strip()
    return Mistake("", line_number, f"is not YAML: {_in_plain_words(problem, _text_of_line(text, mark))}")


def _text_of_line(text: str, mark: yaml.Mark | None) -> str:
    if mark is None:
        return ""
    lines = text.splitlines()
    return lines[mark.line] if mark.line < len(lines) else ""


def _in_plain_words(problem: str, line_text: str) -> str:
    if _BARE_V6.search(line_text):
        return 'an IPv6 address needs quotes: "[::1]:8010"'
    if "\t" in line_text[: len(line_text) - len(line_text.lstrip())] or "'\\t'" in problem:
        return "a tab is used to indent; YAML wants spaces"
    if "mapping values are not allowed" in problem:
        return "a colon where none can be; is the line above or its indentation wrong, or a quote missing?"
    if "another document" in problem or "'<document start>'" in problem:
        return "a second document begins; the file has one"
    if "tag handle" in problem:  # these two would repeat what was written, which may be a token
        return "has a tag that is not supported here"
    if "duplicate anchor" in problem:
        return "an anchor (&) is set twice"
    if "found undefined alias" in problem:
        return "an alias (*) names an anchor that does not exist"
    return problem
