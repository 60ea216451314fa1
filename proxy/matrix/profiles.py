"""What is known of each homeserver, as data: its figures and what it ends when a client leaves (behaviour.md §4.1, §8). Pure.

A profile sets defaults only. `figures` puts what was set over them and keeps where each figure came from. In a pooled profile
(a homeserver with threads) the lanes are ceilings in one pool, so their sizes follow from the pool's; elsewhere each lane has
its own places. Which homeserver it is, is told by its own words; `identify` reads them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from proxy.matrix.endpoint import Endpoint, Lane, RouteClass

DEFAULT: Final = "default"
PROFILE: Final = "profile"
#: The lanes' names by `Lane`, as settings, metrics and status have them.
LANE_NAMES: Final = tuple(lane.name.lower() for lane in Lane if lane is not Lane.NONE)
GENERIC: Final = "generic"
#: More workers than this in a lane protect no homeserver.
MAX_WORKERS: Final = 4096
_MAX_ANSWER_BYTES = 65_536
#: Homeservers answer long polls late: this much after their timeout; and the whole, where that is not known (§5.4).
SYNC_SLACK_S: Final = 90.0
SYNC_UNKNOWN_S: Final = 210.0


class Figure(NamedTuple):
    """One figure and where it came from: `default`, `profile`, or what the caller says (`file`, `environment`)."""

    value: float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One column of the table of §8. `ends` are names of endpoints whose work ends with their client."""

    name: str
    pooled: bool = False
    workers: Mapping[str, int]
    share: float = 0.125
    sync_workers: int = 8000
    per_account: int = 32
    per_device: int = 8
    ends: frozenset[str] = frozenset()
    gets_end: bool = False


_OWN_PLACES: Final = {
    "requests": 64,
    "vital": 16,
    "media": 64,
    "remote": 64,
    "first_syncs": 32,
    "federation": 64,
    "appservices": 32,
}
# Not its long polls: /sync is marked cancellable, but goes on to its timeout (tests/e2e/test_waits.py, Synapse 1.163).
_SYNAPSE_ENDS: Final = frozenset({"state", "members", "keys_query", "keys_changes"})

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(
            name=GENERIC,
            pooled=True,
            workers={"requests": 16},
            share=0.25,
            sync_workers=32,
            per_account=4,
            per_device=2,
        ),
        Profile(name="synapse", workers=_OWN_PLACES, ends=_SYNAPSE_ENDS),
        Profile(name="dendrite", workers=_OWN_PLACES, ends=frozenset({"messages"})),
        Profile(name="tuwunel", workers=_OWN_PLACES, gets_end=True),
        Profile(name="continuwuity", workers=_OWN_PLACES),
        Profile(name="conduit", workers=_OWN_PLACES),
    )
}
#: Whose profile it is although the name is another.
_ALIASES: Final = {"conduwuit": "continuwuity"}


class LaneFigures(NamedTuple):
    """One lane. `guaranteed` of the pool's workers are its own when it asks; `line` is how many may wait."""

    name: str
    workers: int
    share: float
    deadline_s: float
    max_wait_s: float
    line: int
    in_pool: bool
    guaranteed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything a profile and the settings say together. `lanes` by `Lane`, `deadlines_s` by `RouteClass`.

    `given` has every figure with its origin, under the key it has in the settings.
    """

    profile: str
    lanes: tuple[LaneFigures, ...]
    deadlines_s: tuple[float, ...]
    sync_workers: int
    waits_per_account: int
    waits_per_device: int
    given: Mapping[str, Figure]
    _ends: frozenset[str]
    _gets_end: bool

    def ends_with_client(self, endpoint: Endpoint, method: bytes) -> bool:
        """Tell whether the homeserver stops when its client leaves, so that aborting frees the worker (§4.6)."""
        return endpoint.name in self._ends or (self._gets_end and method == b"GET")


def identify(version_answer: bytes | None, server_field: bytes | None) -> str | None:
    """Give the profile of a homeserver; None if it has not said anything yet, GENERIC if nobody knows what it said.

    `version_answer` is the body of a 200 of `/_matrix/federation/v1/version`; `server_field` the Server field of a 200 of
    `/_matrix/client/versions`, empty where it has none. None stands for no such answer.
    """
    name = None if version_answer is None else _server_name(version_answer)
    if name is not None:
        return _profile_of(name)
    if server_field is not None:
        return _profile_of(server_field.decode("latin-1").partition("/")[0])
    return None


def _server_name(body: bytes) -> str | None:
    try:
        name = json.loads(body[: _MAX_ANSWER_BYTES + 1])["server"]["name"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _profile_of(name: str) -> str:
    word = name.strip().partition(" ")[0].lower()
    word = _ALIASES.get(word, word)
    return word if word in PROFILES else GENERIC


def figures(profile_name: str, given: Mapping[str, Figure]) -> Figures:
    """Put `given` over a profile's figures.

    `given` must have `lanes.<lane>.deadline_seconds` and `.max_wait_seconds` of every lane and
    `lanes.requests.history_deadline_seconds`; it may have `lanes.<lane>.workers`, `.share`, `lanes.line`, `sync.workers`,
    `sync.per_account` and `sync.per_device`.

    Raises:
        KeyError: if there is no such profile, or a figure is missing.
    """
    profile = PROFILES[profile_name]
    book = _Book(given)
    pool = int(book.take("lanes.requests.workers", profile.workers["requests"]))
    sizes = _sizes_in_pool(pool) if profile.pooled else profile.workers
    lanes = tuple(_lane(name, profile, sizes[name], pool, book) for name in LANE_NAMES)
    sync_workers, per_account, per_device = _waits(profile, book)
    history_deadline_s = book.take("lanes.requests.history_deadline_seconds")
    return Figures(
        profile=profile_name,
        lanes=lanes,
        deadlines_s=_deadlines(lanes, history_deadline_s),
        sync_workers=sync_workers,
        waits_per_account=per_account,
        waits_per_device=per_device,
        given=book.all,
        _ends=profile.ends,
        _gets_end=profile.gets_end,
    )


class _Book:
    """Collects each figure with its origin."""

    def __init__(self, given: Mapping[str, Figure]) -> None:
        self._given = given
        self.all: dict[str, Figure] = {}

    def take(self, key: str, by_profile: float | None = None) -> float:
        figure = self._given.get(key)
        if figure is None:
            if by_profile is None:
                raise KeyError(key)
            figure = Figure(by_profile, PROFILE)
        self.all[key] = figure
        return figure.value

    def take_at_most(self, key: str, by_profile: int, limit: int) -> int:
        """Take a figure that another bounds; what is shown is what holds."""
        value = min(int(self.take(key, by_profile)), limit)
        self.all[key] = Figure(value, self.all[key].origin)
        return value

    def maybe_take(self, key: str) -> float | None:
        return self.take(key) if key in self._given else None


def _sizes_in_pool(pool: int) -> Mapping[str, int]:
    """Give the ceilings of §4.1 in a pool; vital's places are above it."""
    return {
        "requests": pool,
        "vital": max(2, pool // 8),
        "media": max(1, pool // 2),
        "remote": max(1, pool // 2),
        "first_syncs": max(1, pool // 4),
        "federation": pool,
        "appservices": max(1, pool // 4),
    }


def _lane(name: str, profile: Profile, size: int, pool: int, book: _Book) -> LaneFigures:
    key = f"lanes.{name}."
    in_pool = profile.pooled and name != "vital"
    workers = book.take_at_most(f"{key}workers", size, pool if in_pool else MAX_WORKERS)
    guaranteed = min(workers, max(1, pool // 4)) if in_pool and name == "federation" else 0
    line = book.maybe_take("lanes.line")
    return LaneFigures(
        name=name,
        workers=workers,
        share=book.take(f"{key}share", 1.0 if name == "appservices" else profile.share),
        deadline_s=book.take(f"{key}deadline_seconds"),
        max_wait_s=book.take(f"{key}max_wait_seconds"),
        line=max(1024, 64 * workers) if line is None else int(line),
        in_pool=in_pool,
        guaranteed=guaranteed,
    )


def _waits(profile: Profile, book: _Book) -> tuple[int, int, int]:
    """Give the budgets in all, of an account, of a device (§5.1). A small pool makes the profile's account smaller."""
    workers = int(book.take("sync.workers", profile.sync_workers))
    quarter = max(1, workers // 4)
    per_account = int(book.take("sync.per_account", min(profile.per_account, quarter)))
    return workers, per_account, book.take_at_most("sync.per_device", profile.per_device, per_account)


def _deadlines(lanes: tuple[LaneFigures, ...], history_deadline_s: float) -> tuple[float, ...]:
    by_class = {
        RouteClass.VITAL: lanes[Lane.VITAL].deadline_s,
        RouteClass.REQUESTS: lanes[Lane.REQUESTS].deadline_s,
        RouteClass.MEDIA: lanes[Lane.MEDIA].deadline_s,
        RouteClass.HISTORY: history_deadline_s,
        RouteClass.REMOTE: lanes[Lane.REMOTE].deadline_s,
        RouteClass.FEDERATION: lanes[Lane.FEDERATION].deadline_s,
        RouteClass.SYNC: SYNC_UNKNOWN_S,
        RouteClass.FIRST_SYNC: lanes[Lane.FIRST_SYNCS].deadline_s,
    }
    return tuple(by_class[route] for route in RouteClass)
