"""The process: the event loop, its signals, the log's thread, what was handed over; what runs in it is `app`'s."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog
import uvloop

from proxy.app import Application, StartError, tell_dangers
from proxy.config.mistakes import Mistake
from proxy.config.settings import Settings
from proxy.observability.log_lines import LogLines
from proxy.observability.logs import configure_logs
from proxy.supervisor.handed_over import HandedOverSockets, HandOverError, take_over
from proxy.supervisor.notify import Notify

#: Python's own, but that cycles are looked for among all objects only after 700,000 more: clients leave none, and while 10,000
#: came it stopped everything for up to 0.25 s each time that there were a quarter more.
_COLLECT_AFTER: Final = (700, 10, 100)
_STDERR: Final = 2
_LAST_LINES_S: Final = 1.0  # at the end, for the log's last lines to be taken

_log = structlog.get_logger("fairgate")


def run(settings: Settings, path: Path | None = None, warnings: Sequence[Mistake] = ()) -> None:
    """Run until SIGTERM or SIGINT; a second one ends at once. SIGHUP, or a change of it, reads the file at `path` again.

    Raises:
        StartError: if it cannot start.
    """
    _fill_standard_descriptors()
    notify = Notify(os.environ)
    try:
        handed_over = take_over(os.environ)
    except HandOverError as error:
        raise StartError(str(error)) from None
    lines = LogLines(_stderr(), lambda lost: _log.warning("log lines were lost", total=lost))
    configure_logs(settings.log, lines)
    tell_dangers(warnings)
    try:
        uvloop.run(_run(settings, path, lines, handed_over, notify))
    finally:
        lines.close(_LAST_LINES_S)


def _fill_standard_descriptors() -> None:
    """Open what was closed at start: libuv aborts when it closes a socket or epoll of its own that has such a number."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(opened)


def _stderr() -> int:
    """Give its descriptor; where it was closed at start, the number may be another file's by now."""
    return os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()


async def _run(
    settings: Settings, path: Path | None, lines: LogLines, handed_over: HandedOverSockets, notify: Notify
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_fault)
    stop, at_once = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            at_once.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    application = Application(settings, path, lines, handed_over=handed_over, notify=notify)
    loop.add_signal_handler(signal.SIGHUP, application.reload)
    await application.start()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    await stop.wait()
    await application.stop(at_once)


def _log_fault(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """A fault of ours ended a connection: say so loudly, and go on."""
    error = context.get("exception")
    _log.error(
        "fault", detail=context.get("message"), exc_info=error if isinstance(error, BaseException) else None
    )
