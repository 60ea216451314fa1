"""Progress on stdout, one line a step with its seconds; a failure is one line on stderr."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / ".run"


class ToolError(Exception):
    """Something a person has to put right; its text is the one line they see."""


@contextmanager
def step(title: str) -> Iterator[None]:
    """Show `title` now and how long it took at the end."""
    began_at = time.monotonic()
    print(f"fairgate: {title} ...", end="", flush=True)
    try:
        yield
    except BaseException:
        print(f" failed after {time.monotonic() - began_at:.1f} s", flush=True)
        raise
    print(f" {time.monotonic() - began_at:.1f} s", flush=True)


def fail(error: ToolError) -> int:
    """Print the one line; returns the exit code to leave with."""
    print(f"fairgate: {error}", file=sys.stderr, flush=True)
    return 1


def run_logged(command: Sequence[str | Path], log: Path, cwd: Path = ROOT) -> None:
    """Run to the end with all output in `log`. Raises ToolError naming the log where it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        try:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            raise ToolError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        last = last_line(log)
        raise ToolError(f"`{' '.join(map(str, command))}` failed: {last} (all of it: {log})")


def last_line(log: Path) -> str:
    """Return the last line of a log that tells of an error, else the last that says something."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith("hint:")]
    errors = [line for line in told if "error" in line.lower()]
    return (errors or told or ["nothing was printed"])[-1]
