"""Processes of the bench and how they are talked to: one JSON object a line, questions on stdin, answers on stdout.

A child ends when its stdin does, and is killed with its parent; so nothing is left behind, however the bench ends.
"""

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.fairness.priority import FIRST, set_niceness
from tools.console import ROOT, ToolError, last_line
from tools.processes import stop

Message = dict[str, Any]
_MAX_LINE_BYTES = 8 << 20
_PIECE_BYTES = 65_536


class Child:
    """A child as the parent has it."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.pid = popen.pid
        self._popen = popen
        self._log = log
        self._received = b""

    def tell(self, message: Message) -> None:
        """Send one message."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(json.dumps(message).encode() + b"\n")
            self._popen.stdin.flush()
        except OSError as error:
            raise ToolError(f"{self.name} has ended: {last_line(self._log)}") from error

    def hear(self, within_s: float) -> Message:
        """Wait for its next message. Raises ToolError once `within_s` has passed or it ended."""
        assert self._popen.stdout is not None
        deadline = time.monotonic() + within_s
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._popen.stdout], [], [], left)[0]:
                raise ToolError(f"{self.name} said nothing within {within_s:.0f} s: {last_line(self._log)}")
            piece = os.read(self._popen.stdout.fileno(), _PIECE_BYTES)
            if not piece:
                raise ToolError(f"{self.name} has ended: {last_line(self._log)}")
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def ask(self, message: Message, within_s: float) -> Message:
        """Send, and wait for the answer."""
        self.tell(message)
        return self.hear(within_s)


@contextmanager
def running_child(
    module: str, settings: Message, core: int | None, log: Path, niceness: int = FIRST
) -> Iterator[Child]:
    """Run `python -m benchmarks.fairness.<module>` until the block is left; `core` None leaves it every core."""
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    command = [
        "setpriv", "--pdeathsig", "KILL", *pinned,
        sys.executable, "-m", f"benchmarks.fairness.{module}", json.dumps(settings),
    ]  # fmt: skip
    with log.open("ab") as err:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            cwd=ROOT,
            start_new_session=True,
        )
    set_niceness(popen.pid, niceness)
    try:
        yield Child(module, popen, log)
    finally:
        for pipe in (popen.stdin, popen.stdout):
            assert pipe is not None
            with suppress(OSError):  # what it was told last, it did not read
                pipe.close()
        stop(popen, 2)


async def questions() -> AsyncIterator[Message]:
    """Yield what the parent says, in a child; ends when the parent does."""
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


def answer(message: Message) -> None:
    """Say something to the parent, in a child."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
