"""Virtual environments that are either complete or made again.

A venv counts as complete when its marker file names exactly what was asked for; the marker is written last,
so an install that failed or was killed leaves nothing taken for good. One builder at a time, by a lock file.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.console import ROOT, RUN, run_logged, step

FAIRGATE_VENV = ROOT / ".venv"
MARKER = "fairgate-complete"
Command = Sequence[str | Path]
_VENV: Command = (sys.executable, "-m", "venv")


def ensure_venv(folder: Path, requirements: Sequence[str], title: str, maker: Command = _VENV) -> Path:
    """Make `folder` a venv with `requirements`, by `maker`, unless it is; returns its Python."""
    with one_builder(folder):
        wanted = "\n".join(requirements)
        if _marker_text(folder) != wanted:
            _install(folder, requirements, title, maker)
            (folder / MARKER).write_text(wanted)
    return folder / "bin" / "python"


def ensure_fairgate(extra: str = "") -> Path:
    """Install Fairgate, editable, into `.venv`; again where pyproject.toml changed or `extra` is missing."""
    project = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    with one_builder(FAIRGATE_VENV):
        known, _, extras = _marker_text(FAIRGATE_VENV).partition(" ")
        if known != project or (extra and extra != extras):
            target = f".[{extra}]" if extra else "."
            _install(FAIRGATE_VENV, ["--editable", target], "installing Fairgate into .venv", _VENV)
            (FAIRGATE_VENV / MARKER).write_text(f"{project} {extra}")
    return FAIRGATE_VENV / "bin" / "python"


def _install(folder: Path, requirements: Sequence[str], title: str, maker: Command) -> None:
    python = folder / "bin" / "python"
    usable = _works(python) and (folder / MARKER).exists()
    (folder / MARKER).unlink(missing_ok=True)
    log = RUN / "logs" / f"{folder.name.strip('.')}.log"
    with step(title):
        if not usable:
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            run_logged([*maker, folder], log)
        run_logged([python, "-m", "pip", "install", "--quiet", *requirements], log)


def _marker_text(folder: Path) -> str:
    marker = folder / MARKER
    return marker.read_text() if marker.exists() and _works(folder / "bin" / "python") else ""


def _works(python: Path) -> bool:
    if not python.exists():  # also a link to an interpreter that was removed
        return False
    return subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode == 0


@contextmanager
def one_builder(folder: Path) -> Iterator[None]:
    """Let nobody else make this folder meanwhile."""
    RUN.mkdir(exist_ok=True)
    with (RUN / f"{folder.name.strip('.')}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
