"""`FAIRGATE_HOMESERVER__URL=…` over the file's values: two underscores between levels, lists by index; pure.

A value is read as YAML, so that numbers, lists and sections can be given; for a key that wants text, what
YAML would read as anything else is taken as it stands (`[::1]:9402` needs no quotes), but nothing and `null`
where the key may be without a value.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from proxy.config.document import read_document
from proxy.config.mistakes import Location, Mistake, path_text
from proxy.config.schema import annotation_at, list_item, locations, nearest_word

PREFIX = "FAIRGATE_"
_LEVELS = "__"
#: What YAML reads as no value.
_NOTHING: Final = ("", "~", "null", "Null", "NULL")

#: What Kubernetes puts into the environment for a Service named "fairgate…"; not ours to judge.
_SERVICE_LINK = re.compile(
    r"FAIRGATE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)",
    re.ASCII,
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://", re.ASCII)


def variable_name(location: Location) -> str:
    """Write the variable that overrides a location."""
    return PREFIX + _LEVELS.join(str(key) for key in location).upper()


def override(
    tree: dict[str, object], environment: Mapping[str, str]
) -> tuple[dict[Location, str], list[Mistake]]:
    """Put the variables' values into `tree`; return which variable set which location, and the mistakes."""
    variables: dict[Location, str] = {}
    mistakes: list[Mistake] = []
    for name in sorted(environment, key=lambda name: (name.count(_LEVELS), name)):
        if not name.startswith(PREFIX) or _is_service_link(name, environment[name]):
            continue
        found = _location(name)
        if found is None:
            mistakes.append(_unknown(name))
            continue
        value, problem = _value(environment[name], annotation_at(found))
        problem = problem or _put(tree, found, value)
        if problem:
            mistakes.append(Mistake(name, None, problem))
        else:
            variables[found] = name
    return variables, mistakes


def _is_service_link(name: str, value: str) -> bool:
    linked = _SERVICE_LINK.fullmatch(name) or (name.endswith("_PORT") and _SERVICE_URL.match(value))
    return bool(linked) and _location(name) is None


def _location(name: str) -> Location | None:
    words = name.removeprefix(PREFIX).split(_LEVELS)
    location = tuple(
        int(word) if re.fullmatch(r"[0-9]{1,3}", word, re.ASCII) else word.lower() for word in words
    )
    return location if name == name.upper() and annotation_at(location) is not None else None


def _unknown(name: str) -> Mistake:
    known = [variable_name(location) for location in locations()]
    return Mistake(
        path_text((name,)), None, "is not a setting of Fairgate", nearest_word(name.upper(), known)
    )


def _value(text: str, annotation: Any) -> tuple[object, str | None]:
    document = read_document(text)
    if annotation == str | None and text.strip() in _NOTHING:
        return None, None
    if annotation in (str, str | None):
        return (document.tree if isinstance(document.tree, str) and not document.mistakes else text), None
    if document.mistakes:
        return None, document.mistakes[0].message
    return document.tree, None


def _put(tree: dict[str, object], location: Location, value: object) -> str | None:
    """Set one value, making the sections above it; what is wrong in the file is left for the file's check."""
    place: Any = tree
    for depth, key in enumerate(location):
        if isinstance(place, list):
            if not isinstance(key, int):
                return None
            if key > len(place):
                return (
                    f"{path_text(location[:depth])} has {len(place)} entries; the next is number {len(place)}"
                )
            if key == len(place):
                place.append(None)
        elif not isinstance(place, dict):
            return None
        if depth == len(location) - 1:
            place[key] = value
            break
        place = _below(place, key, location[: depth + 1])
    return None


def _below(place: Any, key: str | int, location: Location) -> Any:
    """Return what is at `key`; where nothing is, an empty section, or the list that is the default."""
    there = place.get(key) if isinstance(place, dict) else place[key]
    if there is None:
        there = place[key] = [{}] if list_item(annotation_at(location)) else {}
    return there
