"""What differs between two settings, and what of it needs a restart; pure."""

from collections.abc import Iterator

from pydantic import BaseModel

from proxy.config.mistakes import Location, path_text
from proxy.config.settings import Settings

#: Sections and keys that are used once, at start: sockets, connections already made, directories, memory that is shared out,
#: the start of a limit that learns.
NEEDS_RESTART: tuple[Location, ...] = (
    ("listen",),
    ("homeserver", "url"),
    ("homeserver", "connect_timeout_seconds"),
    ("homeserver", "idle_seconds"),
    ("bodies", "memory_bytes"),
    ("bodies", "memory_total_bytes"),
    ("bodies", "spool_directory"),
    ("bodies", "spool_bytes"),
    ("responses",),
    ("lanes", "max_lead_seconds"),
    ("background", "initial_limit"),
    ("egress", "listen"),
    ("admin", "listen"),
    ("metrics",),
    ("state_directory",),
)


def changed_keys(old: Settings, new: Settings) -> list[str]:
    """Give the path of every value that differs."""
    return [path_text(location) for location in _differences(old, new, ())]


def keys_needing_restart(started_with: Settings, new: Settings) -> list[str]:
    """Give the path of every value that holds only once the process is started again."""
    return [
        path_text(location)
        for location in _differences(started_with, new, ())
        if any(location[: len(key)] == key for key in NEEDS_RESTART)
    ]


def _differences(old: BaseModel, new: BaseModel, above: Location) -> Iterator[Location]:
    for name in type(new).model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(after, BaseModel) and type(before) is type(after):
            yield from _differences(before, after, (*above, name))
        elif before != after:
            yield (*above, name)
