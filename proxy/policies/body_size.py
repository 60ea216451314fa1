"""How large a body may be: JSON by a fixed limit, uploads by what the homeserver says of itself (behaviour.md §3.3).

The homeserver is asked with the first confirmed uploader's token and its answer believed for an hour; after that the next one
asks anew, and the old answer holds until there is another. Until the first answer there is no limit of ours. One question at a
time; after a failure the next is asked no sooner than a minute later. Left to others: asking, counting, the 413.
"""

from dataclasses import dataclass
from typing import Final

NO_LIMIT: Final = float("inf")
_FRESH_S: Final = 3600.0
_RETRY_S: Final = 60.0
_ANSWERED_WITHIN_S: Final = 60.0  # a question whose asker was lost is asked again


@dataclass(frozen=True, slots=True)
class BodySizeStatistics:
    """The limits in bytes, None for none. `asked_total` counts questions."""

    json_bytes: int
    upload_bytes: int | None
    configured: bool
    asked_total: int
    failed_total: int


class BodySizes:
    """The limits now. `max_upload_bytes` None: the homeserver's word holds. `now` is in monotonic seconds."""

    def __init__(self, *, max_json_bytes: int, max_upload_bytes: int | None) -> None:
        self._learned: int | None = None
        self._ask_again_at = float("-inf")
        self._asked_total = 0
        self._failed_total = 0
        self.configure(max_json_bytes=max_json_bytes, max_upload_bytes=max_upload_bytes)

    def configure(self, *, max_json_bytes: int, max_upload_bytes: int | None) -> None:
        """Take other limits; what the homeserver said is kept."""
        self._json_bytes = max_json_bytes
        self._configured = max_upload_bytes

    def limit(self, *, is_upload: bool) -> float:
        """Give the largest body in bytes; NO_LIMIT where none is known."""
        if not is_upload:
            return self._json_bytes
        limit = self._learned if self._configured is None else self._configured
        return NO_LIMIT if limit is None else limit

    def must_ask(self, now: float) -> bool:
        """Tell a confirmed uploader whether to ask the homeserver now; if so, it is its question from here on."""
        if self._configured is not None or now < self._ask_again_at:
            return False
        self._ask_again_at = now + _ANSWERED_WITHIN_S
        self._asked_total += 1
        return True

    def learn(self, upload_bytes: int | None, now: float) -> None:
        """Take what the homeserver said; None: it names no limit."""
        self._learned = upload_bytes
        self._ask_again_at = now + _FRESH_S

    def failed(self, now: float) -> None:
        """Nothing was learned: what is known holds on."""
        self._failed_total += 1
        self._ask_again_at = now + _RETRY_S

    def statistics(self) -> BodySizeStatistics:
        """Give the limits as they are now."""
        limit = self.limit(is_upload=True)
        return BodySizeStatistics(
            json_bytes=self._json_bytes,
            upload_bytes=None if limit == NO_LIMIT else int(limit),
            configured=self._configured is not None,
            asked_total=self._asked_total,
            failed_total=self._failed_total,
        )
