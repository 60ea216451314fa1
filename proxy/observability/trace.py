"""Decisions as JSON lines in a file, for `fairgate replay` (`log.trace`).

One line a request: when it asked, who (account or address, in plain text: a replay says who would have waited), what for
(class, lane, endpoint's name, a long poll's timeout), what came of it (wait, service, status, refusal). No target, no field,
no body: so no token. The file is for its owner alone (mode 600).

Lines are gathered and written by a thread, one write at a time. Bounds: `MAX_KEPT` lines in memory, beyond which lines are
lost and counted, as are those of a write that failed; `MAX_FILE_BYTES` in the file, which then becomes `<path>.1` in the
place of the one before.
"""

import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import structlog

from proxy import clock
from proxy.errors import Reason
from proxy.matrix.endpoint import Lane, Poll
from proxy.matrix.sync_request import sync_timeout_s
from proxy.observability.request import Request

VERSION: Final = 1
MAX_KEPT: Final = 50_000
MAX_FILE_BYTES: Final = 64 * 1024 * 1024

_log = structlog.get_logger("fairgate.trace")


class Trace:
    """See the module. Made outside of the hot path: it opens the file.

    Raises:
        OSError: if the file cannot be written.
    """

    def __init__(self, path: Path, *, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self.path = path
        self.lost_total = 0
        self._max_file_bytes = max_file_bytes
        self._lines: list[str] = []
        self._began_at = clock.wall_time() - clock.now()  # from monotonic to wall time
        self._descriptor = _opened(path)
        self._size = os.fstat(self._descriptor).st_size
        self._thread = ThreadPoolExecutor(1, "fairgate-trace")
        self._writing: Future[None] | None = None
        self._under_way = 0
        self._failed = False

    def ended(self, request: Request, now: float) -> None:
        """The homeserver is done with a request."""
        line = self._line(request)
        ticket = request.ticket
        if ticket is not None:
            line["at"] = round(self._began_at + ticket.asked_at, 4)
            line["wait_s"] = round(ticket.started_at - ticket.asked_at, 4)
        line["service_s"] = round(now - request.sent_at, 4)
        line["status"] = request.status
        if request.failure is not None:
            line["failure"] = request.failure.value
        self._keep(line)

    def refused(self, request: Request, reason: Reason, now: float) -> None:
        """It got an answer of ours."""
        line = self._line(request)
        line["wait_s"] = round(now - request.started_at, 4)
        line["status"], line["refused"] = reason.status, reason.value
        self._keep(line)

    def write(self) -> None:
        """Have what was gathered written, unless the last write is still under way; called a few times a second."""
        if self._writing is not None:
            if not self._writing.done():
                return
            error = self._writing.exception()
            self._writing = None
            if error is not None:
                self.lost_total += self._under_way
            if error is not None and not self._failed:
                self._failed = True
                _log.warning("the trace cannot be written", path=str(self.path), error=str(error))
        if self._lines:
            lines, self._lines = self._lines, []
            self._under_way = len(lines)
            self._writing = self._thread.submit(self._write, lines)

    def close(self) -> None:
        """Write what is left, and end."""
        lines, self._lines = self._lines, []
        if lines:
            self._thread.submit(self._write, lines)
        self._thread.submit(os.close, self._descriptor)
        self._thread.shutdown(wait=True)

    def _line(self, request: Request) -> dict[str, object]:
        endpoint, principal, asker = request.endpoint, request.principal, request.asker
        line: dict[str, object] = {
            "v": VERSION,
            "at": round(self._began_at + request.started_at, 4),
            "flow": asker.key if principal is None else principal.flow,
            "address": asker.key,
            "method": request.head.method.decode("ascii"),
            "endpoint": endpoint.name,
            "class": endpoint.label,
        }
        if endpoint.lane is Lane.NONE:
            line["lane"] = None
        elif principal is not None and principal.appservice:
            line["lane"] = Lane.APPSERVICES.name.lower()
        else:
            line["lane"] = endpoint.lane.name.lower()
        if endpoint.poll is not Poll.NONE:
            line["poll_s"] = sync_timeout_s(request.head.target)
        if principal is not None:
            if principal.device is not None:
                line["device"] = principal.device
            line["confirmed"] = principal.confirmed and not principal.guest
        if request.head.fields.background:
            line["background"] = True
        return line

    def _keep(self, line: dict[str, object]) -> None:
        if len(self._lines) >= MAX_KEPT:
            self.lost_total += 1
        else:
            self._lines.append(json.dumps(line, separators=(",", ":")))

    def _write(self, lines: list[str]) -> None:
        data = ("\n".join(lines) + "\n").encode()
        if self._size and self._size + len(data) > self._max_file_bytes:
            os.close(self._descriptor)
            self.path.replace(f"{self.path}.1")
            self._descriptor = _opened(self.path)
            self._size = 0
        self._size += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
