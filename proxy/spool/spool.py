"""The directory of spool files: opens them without a name, knows what is open and on disk, and runs their operations.

A file has no name from the moment it exists (O_TMPFILE), or loses it at once (where the file system cannot do that), so
nothing stays behind when the process dies. Disk errors are told to the file's owner and counted here; they end nothing else.
Bounds: the bytes on disk are what owners charge to a `ByteBudget`, and at most a unit more where a write failed in the middle;
at most `max_files` are open. A file too many fails like a write to a full disk, so its body is passed on while it comes.
"""

import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from proxy import clock
from proxy.spool.threads import DiskThreads

#: Open at once, where descriptors are plenty: a gibibyte each way is 8,192 of the smallest, and 128 of full ones.
MAX_FILES: Final = 8192
_PREFIX: Final = "fairgate-spool-"
_NO_TMPFILE: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.ENOSYS})
_WARN_EVERY_S: Final = 60.0
_MEMORY_FILE_SYSTEMS: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})

_log = structlog.get_logger("fairgate.spool")


class SpoolDirectoryError(Exception):
    """The spool directory cannot be used; the text says why, for the operator."""


@dataclass(frozen=True, slots=True)
class SpoolStatistics:
    """What is open (or being opened) and on disk now, and what happened since start; sizes in bytes."""

    open_files: int
    disk_bytes: int
    operations_in_flight: int
    written_bytes_total: int
    read_bytes_total: int
    failures_total: int


class Spool:
    """All spool files of the process. Made once at start, outside of the hot path: it blocks while it tries the directory."""

    def __init__(
        self, directory: Path, *, max_threads: int = 8, max_files: int = MAX_FILES,
        open_file: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        """Try the directory, made if only its last part is missing; `open_file` is for tests.

        Raises:
            SpoolDirectoryError: if no file can be written there.
        """
        self.directory = directory
        self.threads = DiskThreads(max_threads)
        self.max_files = max_files
        self.open_file = open_file or self._open_unnamed
        self.open_files = 0
        self.disk_bytes = 0
        self.written_total = 0
        self.read_total = 0
        self.failures_total = 0
        self._warned_at = -_WARN_EVERY_S
        if open_file is None:
            self._try_directory()

    def may_open(self) -> bool:
        """Tell whether one more file may be open: descriptors are for clients first, who cannot do without."""
        return self.open_files < self.max_files

    def close_descriptor(self, descriptor: int, closed: Callable[[], None]) -> None:
        """Close a file in a thread: to free its blocks can take long. `closed` is called in the loop afterwards."""

        def done(_: object, error: Exception | None) -> None:
            self.open_files -= 1
            if error is not None:
                self.note_failure(error)
            closed()

        self.threads.run(lambda: os.close(descriptor), done)

    def note_failure(self, error: Exception) -> None:
        """Count a disk operation that failed; one warning a minute."""
        self.failures_total += 1
        now = clock.now()
        if now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            _log.warning("spool failed", directory=str(self.directory), error=str(error))

    def close(self) -> None:
        """No operation starts any more; what is open ends with the process."""
        self.threads.close()

    def statistics(self) -> SpoolStatistics:
        """Give the spool's figures."""
        return SpoolStatistics(
            open_files=self.open_files,
            disk_bytes=self.disk_bytes,
            operations_in_flight=self.threads.in_flight,
            written_bytes_total=self.written_total,
            read_bytes_total=self.read_total,
            failures_total=self.failures_total,
        )

    def _open_unnamed(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            return os.open(self.directory, flags | os.O_TMPFILE, 0o600)
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
        descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=self.directory)
        Path(name).unlink()
        return descriptor

    def _try_directory(self) -> None:
        try:
            with suppress(FileExistsError):
                self.directory.mkdir(mode=0o700)
            descriptor = self._open_unnamed()
            try:
                os.write(descriptor, b"\0")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SpoolDirectoryError(
                f"no spool file can be written in {self.directory}: {error.strerror}"
            ) from error
        self._clean()
        if file_system(self.directory) in _MEMORY_FILE_SYSTEMS:
            _log.warning(
                "the spool directory is in memory: what is spooled counts as memory of this machine or container",
                directory=str(self.directory),
                set="bodies.spool_directory",
            )

    def _clean(self) -> None:
        """Remove what a process left that died between making a file and taking its name away."""
        for path in self.directory.glob(_PREFIX + "*"):
            with suppress(OSError):
                path.unlink()


def file_system(directory: Path) -> str | None:
    """Give the type of the file system that a directory is on, by the kernel's list of mounts; None if that tells nothing."""
    path = os.path.realpath(directory)
    best, kind = -1, None
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, behind = line.partition(" - ")
            mount = before.split(" ")[4].encode().decode("unicode_escape")
            inside = path == mount or path.startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= best:
                best, kind = len(mount), behind.split(" ")[0]
    return kind
