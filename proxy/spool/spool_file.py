"""One sequential file without a name: written at its end, read from its front, also while it grows.

Operations run in the spool's threads, one at a time for a file; the result comes back as a call of the owner. The file is a
chain of segments: one that is read to its end is closed, which frees its space while the rest still waits. A segment read
to its end that could take more is written again from its beginning. So the space taken is what is unread, and at most two
segments' remains more. `close` may come at any time; descriptors are closed once, after the operation that uses them.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from proxy.spool.pieces import Piece
from proxy.spool.spool import Spool

UNIT_BYTES: Final = 1_048_576  # at most this in one operation: a hop to a thread costs 66 µs
SEGMENT_BYTES: Final = 16_777_216  # 64 descriptors for a gibibyte
_MAX_PIECES: Final = 1_024  # what the kernel takes in one call


class SpoolFileOwner(Protocol):
    """Who is told how operations ended; always from the loop, never inside a call of the file."""

    def file_written(self) -> None:
        """The unit is in the file."""

    def file_read(self, data: bytes) -> None:
        """The next bytes of the file."""

    def file_failed(self, error: Exception) -> None:
        """The operation failed: a unit that was to be written is not in the file, or one to be read is lost."""

    def file_shrunk(self) -> None:
        """What was read to its end takes no space any more."""

    def file_closed(self) -> None:
        """All descriptors are closed, the space is free."""


class _Segment:
    """One descriptor. `size` is how far it was ever written; what lies between the other two is unread."""

    __slots__ = ("descriptor", "read_at", "size", "written_at")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = 0
        self.written_at = 0
        self.read_at = 0


class SpoolFile:
    """See the module. `unread_bytes` can be read, `disk_bytes` are taken on disk."""

    __slots__ = (
        "_closing", "_dropped", "_owner", "_segments", "_spool", "_unclosed", "busy", "disk_bytes", "unread_bytes",
    )  # fmt: skip

    def __init__(self, spool: Spool, owner: SpoolFileOwner) -> None:
        self._spool = spool
        self._owner = owner
        self._segments: deque[_Segment] = deque()
        self._unclosed = 0
        self._closing = False
        self._dropped = False
        self.busy = False
        self.disk_bytes = 0
        self.unread_bytes = 0

    def growth(self, size: int) -> int:
        """Give by how many bytes the file will take more space when `size` are written; for who charges it."""
        if not self._segments or self._segments[-1].written_at >= SEGMENT_BYTES:
            return size
        last = self._segments[-1]
        return max(0, last.written_at + size - last.size)

    def write(self, pieces: Sequence[Piece]) -> None:
        """Write a unit at the end; `file_written` or `file_failed` follows. The pieces must not change until then."""
        self._begin()
        segments = self._segments
        if segments and segments[-1].written_at < SEGMENT_BYTES:
            last = segments[-1]
            self._run(lambda: (None, _write_all(last.descriptor, pieces, last.written_at)), self._written)
            return
        spool = self._spool
        if not spool.may_open():
            self._run(_too_many, self._written)
            return
        open_file = spool.open_file
        spool.open_files += 1

        def operation() -> tuple[int | None, int]:
            descriptor = open_file()
            try:
                return descriptor, _write_all(descriptor, pieces, 0)
            except BaseException:
                os.close(descriptor)
                raise

        self._run(operation, self._written, opens=True)

    def readable(self, max_bytes: int) -> int:
        """Give how much of `max_bytes` one operation can read now."""
        if not self._segments:
            return 0
        first = self._segments[0]
        return min(max_bytes, first.written_at - first.read_at)

    def read(self, size: int) -> None:
        """Read the next `size` bytes, `readable` at most; `file_read` or `file_failed` follows."""
        self._begin()
        first = self._segments[0]
        self._run(lambda: _read_exactly(first.descriptor, size, first.read_at), self._read)

    def skip(self, size: int) -> None:
        """Count `size` bytes at the front as read; all of them must be in one unit just written."""
        self._consume(size)

    def close(self) -> None:
        """Drop everything, once the operation in flight has ended; `file_closed` follows. Closing twice is harmless."""
        if not self._closing:
            self._closing = True
            if not self.busy:
                self._close_all()

    def _begin(self) -> None:
        if self.busy or self._closing:
            raise RuntimeError("one operation at a time, none after close")
        self.busy = True

    def _run(
        self, operation: Callable[[], Any], succeeded: Callable[[Any], None], *, opens: bool = False
    ) -> None:
        def unless_closed() -> Any:
            return None if self._closing else operation()

        def done(result: Any, error: Exception | None) -> None:
            self.busy = False
            if opens and result is None:
                self._spool.open_files -= 1
            try:
                if error is not None:
                    if not self._closing:
                        self._owner.file_failed(error)
                    self._spool.note_failure(error)
                elif result is not None:
                    succeeded(result)
            finally:
                if self._closing and not (self.busy or self._dropped):
                    self._close_all()

        self._spool.threads.run(unless_closed, done)

    def _written(self, result: tuple[int | None, int]) -> None:
        descriptor, size = result
        if descriptor is not None:
            self._segments.append(_Segment(descriptor))
        segment = self._segments[-1]
        segment.written_at += size
        self.unread_bytes += size
        growth = max(0, segment.written_at - segment.size)
        segment.size += growth
        self.disk_bytes += growth
        self._spool.disk_bytes += growth
        self._spool.written_total += size
        if not self._closing:
            self._owner.file_written()

    def _read(self, data: bytes) -> None:
        self._consume(len(data))
        self._spool.read_total += len(data)
        if not self._closing:
            self._owner.file_read(data)

    def _consume(self, size: int) -> None:
        first = self._segments[0]
        first.read_at += size
        self.unread_bytes -= size
        if first.read_at < first.written_at:
            return
        if first.written_at < SEGMENT_BYTES and len(self._segments) == 1:
            first.read_at = first.written_at = 0
        else:
            self._close_segment(self._segments.popleft())

    def _close_segment(self, segment: _Segment) -> None:
        self._unclosed += 1
        spool = self._spool

        def closed() -> None:
            spool.disk_bytes -= segment.size
            self.disk_bytes -= segment.size
            self._unclosed -= 1
            if self._closing:
                self._maybe_closed()
            else:
                self._owner.file_shrunk()

        spool.close_descriptor(segment.descriptor, closed)

    def _close_all(self) -> None:
        self._dropped = True
        while self._segments:
            self._close_segment(self._segments.popleft())
        self._maybe_closed()

    def _maybe_closed(self) -> None:
        if self._dropped and not self._unclosed:
            self._owner.file_closed()


def _too_many() -> None:
    raise OSError(errno.EMFILE, "too many spool files are open")


def _write_all(descriptor: int, pieces: Sequence[Piece], offset: int) -> int:
    """Write all pieces at `offset`, however often that takes; give how many bytes. Runs in a thread."""
    if len(pieces) > _MAX_PIECES:
        pieces = [b"".join(pieces)]
    size = sum(map(len, pieces))
    written = os.pwritev(descriptor, pieces, offset)
    if written < size:
        rest = memoryview(b"".join(pieces))
        while written < size:
            written += os.pwrite(descriptor, rest[written:], offset + written)
    return size


def _read_exactly(descriptor: int, size: int, offset: int) -> bytes:
    """Read `size` bytes at `offset`. Runs in a thread."""
    data = os.pread(descriptor, size, offset)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            raise OSError(errno.EIO, "the spool file is shorter than what was written")
        data += more
    return data
