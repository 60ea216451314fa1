"""What keys there are: the settings classes read as a map of paths; pure."""

import difflib
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from proxy.config.mistakes import Location, path_text
from proxy.config.settings import Settings

#: Below this likeness a suggestion would mislead more than help.
_LIKENESS = 0.6


def section(annotation: Any) -> type[BaseModel] | None:
    """Return the settings class an annotation stands for, also where it may be null; None for a value or a list."""
    if isinstance(annotation, UnionType):
        models = [model for member in get_args(annotation) if (model := section(member)) is not None]
        return models[0] if len(models) == 1 else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def list_item(annotation: Any) -> Any | None:
    """Return what a list of this annotation holds, or None where it is no list."""
    return get_args(annotation)[0] if get_origin(annotation) is tuple else None


def step(annotation: Any, key: str | int) -> Any | None:
    """Return the annotation one level down, or None where there is no such key."""
    if isinstance(key, int):
        return list_item(annotation)
    field = _field(annotation, key)
    return field.annotation if field else None


def _field(annotation: Any, key: str | int) -> FieldInfo | None:
    model = section(annotation)
    return model.model_fields.get(str(key)) if model else None


def annotation_at(location: Location) -> Any | None:
    """Return the annotation of a location, or None where there is no such key."""
    annotation: Any | None = Settings
    for key in location:
        annotation = step(annotation, key)
    return annotation


def field_at(location: Location) -> FieldInfo | None:
    """Return what is declared of a key, or None where there is no such key, and for an entry of a list."""
    if not location:
        return None
    *above, key = location
    return None if isinstance(key, int) else _field(annotation_at(tuple(above)), key)


def is_secret(location: Location) -> bool:
    """Say whether what stands there may be shown nowhere: declared with `repr=False`, within such a key, or above one."""
    parts = (field_at(location[:depth]) for depth in range(1, len(location) + 1))
    if any(field is not None and not field.repr for field in parts):
        return True
    return any(is_secret((*location, key)) for key in keys_at(location))


def keys_at(location: Location) -> tuple[str, ...]:
    """Return the keys of the section at a location; empty where it is none."""
    model = section(annotation_at(location))
    return tuple(model.model_fields) if model else ()


def locations(annotation: Any = Settings, above: Location = ()) -> Iterator[Location]:
    """Yield every section, list and value there can be, a list with its first entry."""
    inner: tuple[str | int, ...] = (0,) if list_item(annotation) else ()
    model = section(annotation)
    for key in inner or (model.model_fields if model else ()):
        yield (*above, key)
        yield from locations(step(annotation, key), (*above, key))


def nearest_key(location: Location) -> str | None:
    """Return the key an unknown one most likely stands for: a like one beside it, or the same elsewhere."""
    *above, key = location
    beside = nearest_word(str(key), keys_at(tuple(above)))
    if beside is not None:
        return beside
    elsewhere = [other for other in locations() if other[-1] == key]
    return path_text(elsewhere[0]) if elsewhere else None


def nearest_word(word: str, known: Sequence[str]) -> str | None:
    """Return the most like of the known words, or None where none is like it."""
    found = difflib.get_close_matches(word[:100], known, n=1, cutoff=_LIKENESS)
    return found[0] if found else None
