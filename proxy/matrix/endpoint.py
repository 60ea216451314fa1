"""What is known about a request by where it goes: its class, whose workers it takes, which rules look at it. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final


class RouteClass(IntEnum):
    """In order of strictness; the label for people is `name.lower()`."""

    VITAL = 0
    REQUESTS = 1
    MEDIA = 2
    HISTORY = 3
    REMOTE = 4
    FEDERATION = 5
    SYNC = 6
    FIRST_SYNC = 7


class Lane(IntEnum):
    """Whose workers a request takes; an index into the lanes of a profile. NONE: a long poll that only waits."""

    NONE = -1
    REQUESTS = 0
    MEDIA = 1
    REMOTE = 2
    FIRST_SYNCS = 3
    FEDERATION = 4
    APPSERVICES = 5
    VITAL = 6  # the last, since it is never in the pool of the others


class Poll(IntEnum):
    """Which long poll; anything but NONE needs a permit to wait (§5.1)."""

    NONE = 0
    SYNC = 1
    SLIDING_SYNC = 2
    EVENTS = 3


_LANES: Final = {
    RouteClass.VITAL: Lane.VITAL,
    RouteClass.REQUESTS: Lane.REQUESTS,
    RouteClass.MEDIA: Lane.MEDIA,
    RouteClass.HISTORY: Lane.REQUESTS,
    RouteClass.REMOTE: Lane.REMOTE,
    RouteClass.FEDERATION: Lane.FEDERATION,
    RouteClass.SYNC: Lane.NONE,
    RouteClass.FIRST_SYNC: Lane.FIRST_SYNCS,
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Endpoint:
    """One row of the table, made once. `name` is what profiles and settings call it, `label` its class in metrics.

    `lane` holds but for appservices, who have their own. `kills_token`: a 2xx may end the token it came with (§2.3); others
    it ends are found out when they are renewed. `takes_token`: the homeserver reads a token here, so a large body needs a
    confirmed one (§3.4). `branch` tells the endpoint from the query where that matters.
    """

    name: str
    route: RouteClass = RouteClass.REQUESTS
    lane: Lane = Lane.NONE
    poll: Poll = Poll.NONE
    is_upload: bool = False
    sets_pusher: bool = False
    kills_token: bool = False
    takes_token: bool = True
    branch: "Callable[[bytes], Endpoint] | None" = None
    label: str = field(init=False)
    strictness: int = field(init=False)

    def __post_init__(self) -> None:
        """Fill in what follows from the rest."""
        fill = object.__setattr__
        if self.lane is Lane.NONE:
            fill(self, "lane", _LANES[self.route])
        fill(self, "label", self.route.name.lower())
        has_rules = self.sets_pusher or self.poll is not Poll.NONE
        fill(self, "strictness", 4 * self.route + 2 * has_rules + self.takes_token)
