"""A few threads for disk operations, so that the loop never waits for a disk.

An operation is a function run in a thread; its result or its error comes back to the loop as a call of `done`. Operations
start in the order they were given. Bound: `limit` threads, started when first needed; whoever gives operations bounds their
number. The threads are daemons: a disk that hangs cannot keep the process from ending, as an executor's threads would.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

#: Called in the loop with the result, or with None and the error.
Done = Callable[[Any, Exception | None], None]
_Job = tuple[asyncio.AbstractEventLoop, Callable[[], Any], Done]


class DiskThreads:
    """See the module. All methods are for the loop's thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self.in_flight = 0
        self.closed = False

    def run(self, operation: Callable[[], Any], done: Done) -> None:
        """Run `operation` in a thread, then `done` in the loop that is running now. After `close` nothing is run."""
        if self.closed:
            return
        self.in_flight += 1
        if len(self._threads) < min(self.in_flight, self._limit):
            thread = Thread(
                target=_work, args=(self._jobs, self._finished), name="fairgate-disk", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        self._jobs.put((asyncio.get_running_loop(), operation, done))

    def close(self) -> None:
        """Let the threads end when they have run what was given so far; does not wait for them."""
        if not self.closed:
            self.closed = True
            for _ in self._threads:
                self._jobs.put(None)

    def _finished(self, done: Done, result: Any, error: Exception | None) -> None:
        self.in_flight -= 1
        done(result, error)


def _work(jobs: "SimpleQueue[_Job | None]", finished: Callable[[Done, Any, Exception | None], None]) -> None:
    while (job := jobs.get()) is not None:
        loop, operation, done = job
        result: Any = None
        failure: Exception | None = None
        try:
            result = operation()
        except Exception as error:  # noqa: BLE001  (it is told to the owner, whatever it is)
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
            loop.call_soon_threadsafe(finished, done, result, failure)
        del job, loop, operation, done, result, failure  # holds up to a mebibyte, and the wait may be long
