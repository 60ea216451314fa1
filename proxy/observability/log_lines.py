"""Lines to a descriptor by a thread of its own: a reader that stands still stops no one but that thread.

The descriptor may be shared with other processes (stderr is), so it is not made non-blocking; only a thread can wait for it.

Bound: `max_characters` wait, what is being written included. Beyond that a line is lost and counted, and so is what cannot
be written (a full disk, a reader that is gone). Once writing goes on, `tell` is asked for a line that says so. At the end
`close` waits a little for the rest. A line costs its writer a lock and an append; the thread wakes a hundred times a second
at most, since each time costs as much as half a line.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

MAX_CHARACTERS: Final = 1 << 20
#: What a pipe holds by default; so many lines cost one system call, and one turn of the interpreter's lock.
_BATCH_CHARACTERS: Final = 1 << 16
#: What a line may be late by.
_GATHER_S: Final = 0.01


class LogLines:
    """See the module. `tell` is called by the thread with how many lines were lost since start; it may write lines."""

    def __init__(
        self, descriptor: int, tell: Callable[[int], object], *, max_characters: int = MAX_CHARACTERS
    ) -> None:
        self.lost_total = 0
        self._descriptor = descriptor
        self._tell = tell
        self._told = 0
        self._max_characters = max_characters
        self._lines: deque[str] = deque()
        self._characters = 0
        self._closed = threading.Event()
        self._in_line = False
        # Its lock is one that a thread may take twice: finalizers log too, and run wherever something is allocated.
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="fairgate-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Have whole lines written, or lose them; never waits."""
        with self._changed:
            if self._closed.is_set() or self._characters + len(text) > self._max_characters:
                self.lost_total += 1
                return
            self._lines.append(text)
            self._characters += len(text)
            self._changed.notify()

    def flush(self) -> None:
        """Do nothing: lines are written as soon as can be."""

    def close(self, within_s: float) -> None:
        """Take no more lines, and wait so long for those that are there; what is left then is lost."""
        with self._changed:
            self._closed.set()
            self._changed.notify()
        self._thread.join(within_s)

    def _run(self) -> None:
        while lines := self._take():
            text = "".join(lines)
            written = self._write(text.encode(errors="backslashreplace"))
            with self._changed:
                self._characters -= len(text)
                if not written:
                    self.lost_total += len(lines)
                lost = self.lost_total
            if written and lost > self._told:
                self._told = lost
                self._tell(lost)

    def _take(self) -> list[str]:
        """Wait for lines and take some of them; none at the end."""
        lines, characters = [], 0
        with self._changed:
            while not self._lines and not self._closed.is_set():
                self._changed.wait()
        if self._characters < _BATCH_CHARACTERS:
            self._closed.wait(_GATHER_S)
        with self._changed:
            while self._lines and characters < _BATCH_CHARACTERS:
                lines.append(self._lines.popleft())
                characters += len(lines[-1])
        return lines

    def _write(self, data: bytes) -> bool:
        view = memoryview(b"\n" + data if self._in_line else data)
        try:
            while view:
                try:
                    count = os.write(self._descriptor, view)
                except BlockingIOError:  # somebody it is shared with made it so
                    _wait_for_room(self._descriptor)
                    continue
                self._in_line = count < len(view)  # a line that broke off gets its end before the next
                view = view[count:]
        except OSError:
            return False
        return True


def _wait_for_room(descriptor: int) -> None:
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    room.poll()
