"""Child processes in sessions of their own, so that Ctrl-C reaches only us; ports; waiting."""

import errno
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.console import ToolError, last_line

POLL_S = 0.02


def free_port() -> int:
    """Return a TCP port on 127.0.0.1 nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def demand_free(port: int, whose: str, host: str = "127.0.0.1") -> None:
    """Raise ToolError if `port` cannot be listened at."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ToolError(f"cannot listen at {host}:{port} for {whose}: {error.strerror}") from error
            raise ToolError(f"port {port}, needed for {whose}, is taken; stop what listens there") from error


def start(
    command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start in its own session, all output to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )


def wait_until(
    ready: Callable[[], bool],
    within_s: float,
    what: str,
    child: subprocess.Popen[bytes] | None = None,
    log: Path | None = None,
) -> None:
    """Poll `ready`. Raises ToolError once `within_s` has passed or `child` ended."""
    deadline = time.monotonic() + within_s
    while not ready():
        told = f": {last_line(log)} (all of it: {log})" if log else ""
        if child is not None and child.poll() is not None:
            raise ToolError(f"{what} ended with code {child.returncode}{told}")
        if time.monotonic() >= deadline:
            raise ToolError(f"{what} was not ready within {within_s:.0f} s{told}")
        time.sleep(POLL_S)


def stop(child: subprocess.Popen[bytes], within_s: float) -> int:
    """SIGTERM, after `within_s` SIGKILL; returns the exit code."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            return child.wait(within_s)
        except subprocess.TimeoutExpired:
            child.kill()
    return child.wait()
