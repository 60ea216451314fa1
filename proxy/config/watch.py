"""Notices that a settings file changed, also where a ConfigMap's symbolic link is swapped under it."""

from pathlib import Path

#: What tells one content from another: where the path leads to, which file that is, when and how long it was written.
Mark = tuple[str, int, int, int]


class FileWatch:
    """One file; asking costs two system calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = self._look()

    def has_changed(self) -> bool:
        """Tell whether the file is another one, or was written, since this was last asked; not while it is missing."""
        mark = self._look()
        if mark is None or mark == self._mark:
            return False
        self._mark = mark
        return True

    def _look(self) -> Mark | None:
        try:
            real = self._path.resolve(strict=True)
            status = real.stat()
        except OSError:
            return None  # between two versions of it; the next look tells
        return str(real), status.st_ino, status.st_mtime_ns, status.st_size
