"""A strict decoder of chunked bodies that forwards what it was given (RFC 9112 §7.1). Pure.

In: any cut of the bytes. Out: the same bytes, with chunk extensions and trailers taken out, chunk boundaries kept;
or, with `decode`, the payload alone. A cut without extensions and trailers comes out as the very object that went in,
so that relaying copies nothing. Bound: at most a line of 8 KiB is kept between calls, whatever is sent.
"""

import re

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(;[^\x00-\x08\x0a-\x1f\x7f]{0,255})?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*")
_MAX_SIZE_LINE_BYTES = 15 + 256  # the size, and the extensions that behaviour.md §9.3 allows
_MAX_TRAILER_BYTES = 8192  # over all trailers of a body; they are dropped, so nobody misses more

_SIZE, _PAYLOAD_END, _TRAILERS = range(3)


class BadChunkError(Exception):
    """The bytes are no chunked body, or one that servers could read in different ways."""


class ChunkedBody:
    """One body. `done` is set by its last byte; `payload_bytes` counts decoded bytes so far."""

    __slots__ = ("_awaited", "_decode", "_kept", "_left", "_trailer_bytes", "done", "payload_bytes")

    def __init__(self, *, decode: bool = False) -> None:
        self.done = False
        self.payload_bytes = 0
        self._decode = decode
        self._awaited = _SIZE  # the line that comes once `_left` bytes of payload are through
        self._left = 0
        self._kept = b""
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> tuple[bytes, int]:
        """Take the next bytes; give what to forward, and how many bytes at the end of `data` lie beyond the body.

        Raises:
            BadChunkError: with words for the log.
        """
        if self._kept:
            data = self._kept + data
            self._kept = b""
        pieces: list[bytes] = []
        start = position = 0  # data[start:position] is to be forwarded as it is
        end = len(data)
        while position < end and not self.done:
            if self._left:
                taken = min(self._left, end - position)
                self._left -= taken
                self.payload_bytes += taken
                position += taken
                continue
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                self._keep_partial_line(data[position:])
                break
            replacement = self._take_line(data[position:line_end])
            if replacement is not None or self._decode:
                pieces.append(data[start:position])
                pieces.append(replacement if replacement and not self._decode else b"")
                start = line_end + 2
            position = line_end + 2
        beyond = end - position if self.done else 0
        if not pieces and position == end:
            return data, beyond
        pieces.append(data[start:position])
        return b"".join(pieces), beyond

    def _take_line(self, line: bytes) -> bytes | None:
        """Act on one line without its CR LF; give what to forward in its place, None for the line as it is."""
        if self._awaited == _PAYLOAD_END:
            if line:
                raise BadChunkError("a chunk longer than its size")
            self._awaited = _SIZE
            return None
        if self._awaited == _SIZE:
            match = _SIZE_LINE.fullmatch(line)
            if match is None:
                raise BadChunkError("chunk size")
            self._left = int(match[1], 16)
            self._awaited = _PAYLOAD_END if self._left else _TRAILERS
            return match[1] + b"\r\n" if match[2] else None
        if not line:
            self.done = True
            return None
        self._trailer_bytes += len(line) + 2
        if self._trailer_bytes > _MAX_TRAILER_BYTES or not _TRAILER.fullmatch(line):
            raise BadChunkError("trailer")
        return b""

    def _keep_partial_line(self, rest: bytes) -> None:
        """Hold back a line until its end comes; what can no longer become a good one ends here."""
        if b"\n" in rest or rest.find(b"\r", 0, -1) >= 0:
            raise BadChunkError("bare CR or LF")
        limit = {_PAYLOAD_END: 1, _SIZE: _MAX_SIZE_LINE_BYTES + 1, _TRAILERS: _MAX_TRAILER_BYTES + 1}[
            self._awaited
        ]
        if len(rest) > limit or (self._awaited == _PAYLOAD_END and rest != b"\r"):
            raise BadChunkError("a line without end")
        self._kept = rest
