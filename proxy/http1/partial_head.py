"""Where a request's head ends, and what can no longer become a good one. Pure."""

from proxy.errors import Reason


def head_end(data: bytes, seen: int) -> tuple[int, int]:
    """Give where the head in `data` begins and ends; the end is -1 while it is not there. The first `seen` bytes are known.

    One empty line before a request is allowed (RFC 9112 §2.2).
    """
    start = 2 if data.startswith(b"\r\n") else 0
    end = data.find(b"\r\n\r\n", seen - 3 if seen > 5 else start)
    return start, end + 4 if end >= 0 else -1


def why_hopeless(data: bytes, seen: int, *, max_head_bytes: int, max_target_bytes: int) -> Reason | None:
    """Tell why a head without its end cannot become a good one any more; None while it can. `seen` as above."""
    start = 2 if data.startswith(b"\r\n") else 0
    if start and data.startswith(b"\r", start):
        return Reason.BAD_REQUEST_LINE
    longest_line = start + max_target_bytes + 64
    if len(data) > longest_line and data.find(b"\n", start, longest_line) < 0:
        return Reason.TARGET_TOO_LONG
    if data.count(b"\n", seen) != data.count(b"\r\n", max(0, seen - 1)):
        first = data.find(b"\n", start)
        return Reason.BAD_FIELD if data.endswith(b"\r", 0, first) else Reason.BAD_REQUEST_LINE
    return Reason.HEAD_TOO_LARGE if len(data) > max_head_bytes else None
