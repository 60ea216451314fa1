"""Where a homeserver says how large uploads may be, and what its answer means (behaviour.md §3.3). Pure."""

import json
from typing import Final

#: In the order to ask: the second is for homeservers that answer the first with 404.
TARGETS: Final = (b"/_matrix/client/v1/media/config", b"/_matrix/media/v3/config")
MAX_ANSWER_BYTES: Final = 65_536
#: What homeservers answer with that do not know the path.
UNKNOWN_PATH: Final = frozenset({404, 405})


class NotAConfigError(ValueError):
    """The answer is no media configuration."""


def parse_upload_size(body: bytes) -> int | None:
    """Give the largest upload in bytes, None if the homeserver names no limit.

    Raises:
        NotAConfigError: if the answer means nothing.
    """
    try:
        told = json.loads(body[: MAX_ANSWER_BYTES + 1])
    except (ValueError, RecursionError):
        raise NotAConfigError from None
    if not isinstance(told, dict):
        raise NotAConfigError
    size = told.get("m.upload.size")
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise NotAConfigError
    return size
