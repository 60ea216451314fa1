"""What is measured of a running proxy: CPU a request, CPU a MiB of body, memory a parked connection.

CPU is the CPU clock of every process of the tree: utime + stime as in /proc/PID/stat, in ns and not in ticks.
Memory is the tree's PSS; what the kernel holds for its sockets is the same for every peer, and not in it.
"""

import re
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import Running
from benchmarks.upstream import MEDIA_BYTES
from tools.console import ToolError, last_line

LOAD_CONNECTIONS = 32
_PARKED_PER_ADDRESS = 1000
_SETTLE_S = 1.0
_TARGET = "/_matrix/client/v3/account/whoami"
_FIELDS = {
    "User-Agent": "Element/1.11.85 (Linux; Matrix JS SDK 34.10.0)",
    "Accept": "application/json",
    "Authorization": "Bearer syt_YWxpY2U_yBdUSiiJVBrXNUKDlrrS_1EyDRdAbCdEfGhIjKl",
    "Accept-Encoding": "gzip, deflate, br",
    "Accept-Language": "en-GB,en;q=0.9",
}
_LINES = "".join(f"{name}: {value}\r\n" for name, value in _FIELDS.items())
_REQUEST = f"GET {_TARGET} HTTP/1.1\r\nHost: example.org\r\n{_LINES}\r\n".encode()
_DOWNLOAD = (
    f"GET /_matrix/media/v3/download/example.org/abc HTTP/1.1\r\nHost: example.org\r\n{_LINES}\r\n".encode()
)
_UPLOAD = (
    f"POST /_matrix/media/v3/upload HTTP/1.1\r\nHost: example.org\r\n{_LINES}"
    f"Content-Type: application/octet-stream\r\nContent-Length: {MEDIA_BYTES}\r\n\r\n"
).encode()
_MIB = 1 << 20
_BODY_MIB = MEDIA_BYTES / _MIB
_DISTINCT = Path(__file__).with_name("distinct.lua")


@dataclass(frozen=True, slots=True)
class Window:
    """One short measurement: `cost` is CPU µs a request, or CPU ms a MiB; `per_s` counts requests, or MiB."""

    cost: float
    per_s: float
    busy: float


def cpu_s(running: Running) -> float:
    """Sum the CPU clocks of the tree."""
    total = 0.0
    for pid in running.pids():
        # The clock id of another process: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of linux/posix-timers.h.
        total += time.clock_gettime((~pid << 3) | 2)
    return total


def pss_bytes(running: Running) -> int:
    """Sum the proportional set sizes of the tree."""
    total = 0
    for pid in running.pids():
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        total += int(found[1]) * 1024 if found else 0
    return total


def demand_answer(running: Running) -> None:
    """Raise ToolError unless the homeserver's answer comes through."""
    try:
        with _connection(running.port) as client:
            _ask(client)
    except OSError as error:
        told = last_line(running.log)
        raise ToolError(f"{running.log.stem} gives no answer: {error}; its log ends: {told}") from error


def measure_requests(running: Running, core: int, *, distinct: bool, seconds: int = 1) -> Window:
    """Run wrk with kept-alive connections, each asking again once answered; the same always, or `distinct` requests."""
    fields = [part for name, value in _FIELDS.items() for part in ("-H", f"{name}: {value}")]
    command = [
        "setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(core), "wrk", "-t1", f"-c{LOAD_CONNECTIONS}",
        f"-d{seconds}s", "-H", "Host: example.org", *fields, f"http://127.0.0.1:{running.port}{_TARGET}",
    ]  # fmt: skip
    if distinct:
        command[-1:-1] = ["-s", str(_DISTINCT)]
    before = cpu_s(running)
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 20).stdout
    used = cpu_s(running) - before
    found = re.search(r"(\d+) requests in ([\d.]+)s", told)
    if found is None or int(found[1]) == 0 or "Non-2xx" in told:
        raise ToolError(f"the load on {running.log.stem} failed: {' '.join(told.split())}")
    requests, taken_s = int(found[1]), float(found[2])
    return Window(used / requests * 1e6, requests / taken_s, used / taken_s)


def measure_download(running: Running) -> Window:
    """Fetch one body of `MEDIA_BYTES`."""
    return _measure_body(running, _download)


def measure_upload(running: Running) -> Window:
    """Send one body of `MEDIA_BYTES`."""
    return _measure_body(running, _upload)


def _measure_body(running: Running, send: Callable[[socket.socket], None]) -> Window:
    with _connection(running.port) as client:
        before, began_at = cpu_s(running), time.monotonic()
        send(client)
        used, taken_s = cpu_s(running) - before, time.monotonic() - began_at
    return Window(used * 1e3 / _BODY_MIB, _BODY_MIB / taken_s, used / taken_s)


def measure_parked(running: Running, count: int, held: int) -> tuple[float, int]:
    """Give the bytes a parked connection, `count` of them; then park up to `held` and give how many live.

    One that cannot be opened or is not answered ends the parking; a fresh request must be served beside all.
    """
    with ExitStack() as connections:
        parked: list[socket.socket] = []
        _settle()
        before = pss_bytes(running)
        _park(running.port, count, parked, connections)
        _settle()
        each = (pss_bytes(running) - before) / count if len(parked) == count else float("nan")
        _park(running.port, held, parked, connections)
        if held > count:
            _settle()
        with _connection(running.port) as fresh:
            _ask(fresh)
        return each, sum(map(_is_open, parked))


def _park(port: int, count: int, parked: list[socket.socket], connections: ExitStack) -> None:
    try:
        while len(parked) < count:
            client = connections.enter_context(_connection(port, len(parked) // _PARKED_PER_ADDRESS + 2))
            _ask(client)
            parked.append(client)
    except OSError:
        return


def _settle() -> None:
    time.sleep(_SETTLE_S)


def _connection(port: int, source: int = 1) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 30, (f"127.0.0.{source}", 0))


def _is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False  # an end, or bytes nobody asked for


def _ask(client: socket.socket) -> None:
    client.sendall(_REQUEST)
    _take_answer(client)


def _take_answer(client: socket.socket) -> None:
    answer = b""
    while not answer.endswith((b"}", b"0\r\n\r\n")):
        piece = client.recv(65_536)
        if not piece:
            raise ConnectionResetError("closed before the answer was complete")
        answer += piece
    if not answer.startswith(b"HTTP/1.1 200"):
        raise ToolError(f"not served: {answer[:100]!r}")


def _download(client: socket.socket) -> None:
    client.sendall(_DOWNLOAD)
    head = b""
    while b"\r\n\r\n" not in head:
        head += _some(client, 4096)
    if b"\r\ncontent-length: %d\r\n" % MEDIA_BYTES not in head.lower():
        raise ToolError(f"not the download: {head[:200]!r}")
    left = MEDIA_BYTES - len(head.partition(b"\r\n\r\n")[2])
    room = memoryview(bytearray(_MIB))
    while left > 0:
        size = client.recv_into(room, min(_MIB, left))
        if not size:
            raise ToolError(f"a download ended {left} bytes early")
        left -= size


def _upload(client: socket.socket) -> None:
    client.sendall(_UPLOAD)
    piece = bytes(_MIB)
    for _ in range(MEDIA_BYTES // _MIB):
        client.sendall(piece)
    _take_answer(client)


def _some(client: socket.socket, size: int) -> bytes:
    piece = client.recv(size)
    if not piece:
        raise ToolError("a connection was closed early")
    return piece
