"""What a gate tells the pipeline: that a request may go on, or what it is refused for."""

import random
from typing import Final, Protocol

from proxy.errors import Reason
from proxy.identity.principal import Principal
from proxy.upstream.exchange import Exchange

#: How much the hint of a 429 is spread: §10.1.
JITTER: Final = 0.2
#: The hint of our own 502, 503 and 504, the first and the longest, and how much it is spread: §10.1.
FIRST_HINT_S: Final = 5.0
_LONGEST_HINT_S: Final = 30.0
_OUTAGE_JITTER: Final = 0.5


class Steps(Protocol):
    """The steps after each gate."""

    def identified(self, exchange: Exchange, principal: Principal, now: float) -> None:
        """It is known who asks."""

    def may_wait(self, exchange: Exchange, now: float) -> None:
        """The long poll has a place."""

    def may_begin(self, exchange: Exchange, now: float) -> None:
        """The first sync has its turn."""

    def may_work(self, exchange: Exchange, now: float) -> None:
        """The background request has a place."""

    def has_worker(self, exchange: Exchange, now: float) -> None:
        """The request has a worker."""

    def may_register(self, exchange: Exchange, now: float) -> None:
        """The pusher may be registered."""

    def reported(self, exchange: Exchange, reason: Reason) -> None:
        """It would be refused, but the rule only reports."""

    def refuse(self, exchange: Exchange, reason: Reason, retry_after_s: float | None = None) -> None:
        """It gets an answer of ours; whatever it was given before comes back."""


def jittered(seconds: float, part: float = JITTER) -> float:
    """Spread a hint by `part` of it to both sides, so that those who got it together do not come back together."""
    return seconds * random.uniform(1 - part, 1 + part)  # noqa: S311  (it hides nothing)


def outage_hint_s(seconds: float) -> float:
    """Give the hint of a 502, 503 or 504 that may be worth another try in `seconds`."""
    return jittered(min(seconds, _LONGEST_HINT_S), _OUTAGE_JITTER)
