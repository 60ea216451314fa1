"""Fairgate with its hot path compiled, as the image has it, unpacked in `.run/compiled/lib`: for benches and tests.

`python -m tools.compiled` makes it and prints the folder: put that on PYTHONPATH, and start Python with `-P`, so that the
sources do not come first. Made again where sources, settings of the build or the Python's version changed.
"""

import hashlib
import os
import shutil
import sys
import zipfile
from pathlib import Path

from tools.console import ROOT, RUN, ToolError, fail, run_logged, step
from tools.venvs import one_builder

FOLDER = RUN / "compiled"
LIB = FOLDER / "lib"
_MARKER = FOLDER / "complete"
_SWITCH = "HATCH_BUILD_HOOK_ENABLE_MYPYC=true"


def ensure_compiled() -> Path:
    """Give the folder to import from.

    Raises:
        ToolError: naming what is missing, or the log.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with one_builder(FOLDER):
        wanted = _digest()
        if not _MARKER.exists() or _MARKER.read_text() != wanted:
            _MARKER.unlink(missing_ok=True)
            _build()
            _MARKER.write_text(wanted)
    return LIB


def copy_sources(folder: Path) -> None:
    """Copy what a wheel is made of; compiling leaves files beside the sources."""
    shutil.copytree(ROOT / "proxy", folder / "proxy", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder)


def _build() -> None:
    sources, wheels = FOLDER / "sources", FOLDER / "wheels"
    for folder in (sources, wheels, LIB):
        shutil.rmtree(folder, ignore_errors=True)
    copy_sources(sources)
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--wheel-dir",
        wheels,
        sources,
    ]
    try:
        with step("compiling the hot path, a minute or two"):
            run_logged(["env", _SWITCH, *pip], RUN / "logs" / "compiled.log")
    except ToolError as error:
        raise ToolError(f"{error}; it needs a C compiler and Python's headers: gcc, python3-dev") from error
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(LIB)


def _digest() -> str:
    digest = hashlib.sha256(sys.implementation.cache_tag.encode())
    for path in [ROOT / "pyproject.toml", *sorted((ROOT / "proxy").rglob("*.py"))]:
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def main() -> int:
    """Make it and print where it is."""
    try:
        folder = ensure_compiled()
    except ToolError as error:
        return fail(error)
    print(os.path.relpath(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
