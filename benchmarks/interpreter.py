"""Which Python runs Fairgate in a bench: the fastest this machine has, since builds differ by a fifth.

A build without profile-guided optimisation is common where Python was compiled by hand, and no image or
distribution ships one. `CONFIG_ARGS` tells of it only where the build was asked for it by its switch (Debian's
is optimised and does not say so), hence a loop is timed in each and the output names what was chosen and why.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib

from tools.console import ROOT, RUN, ToolError

_NAMES = ("python3.14", "python3.13", "python3.12", "python3.11", "python3")
_WORTH = 0.93  # another one is taken where it needs less than this part of the time
_TURNS = 5
_VENV = RUN / "bench-venv"
_PROBE = """
import sys, time, ensurepip, venv
if sys.version_info < (3, 11): sys.exit(1)
class Counter:
    def __init__(self): self.count = 0
    def add(self, key, table): self.count += table[key]; return self.count
def once():
    counter, table, began_at = Counter(), {b"a": 1, b"b": 2}, time.process_time()
    for _ in range(100_000): counter.add(b"a", table); b"GET / HTTP/1.1".find(b" ")
    return time.process_time() - began_at
print(min(once() for _ in range(5)))
"""
_MAKE_VENV = "import sys; from tools.venvs import ensure_venv, Path; ensure_venv(Path(sys.argv[1]), sys.argv[3:], sys.argv[2])"


def continue_in_the_fastest() -> None:
    """Start this bench again under a faster Python, if there is one; it gets a venv with what Fairgate needs.

    Raises:
        ToolError: where that venv cannot be made.
    """
    if sys.prefix == str(_VENV):
        return
    found = [shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/bin") for name in _NAMES]
    found += [shutil.which(name, path="/usr/bin") for name in _NAMES]
    paths = {os.path.realpath(path) for path in found if path} - {os.path.realpath(sys.executable)}
    best = dict.fromkeys([sys.executable, *sorted(paths)], float("inf"))
    for _ in range(_TURNS):  # in turn, since the machine's speed changes in between
        for path, least_s in best.items():
            best[path] = min(least_s, _probe_s(path))
    ours_s = best.pop(sys.executable)
    fastest = min(best, key=lambda path: best[path], default=None)
    if fastest is None or best[fastest] > ours_s * _WORTH:
        return
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    command = [fastest, "-c", _MAKE_VENV, str(_VENV), f"{fastest} is faster: a venv of it", *needed]
    if subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False).returncode != 0:
        raise ToolError(f"no venv of {fastest}; to bench with this Python all the same: --this-python")
    python = str(_VENV / "bin" / "python")
    os.execv(python, [python, *sys.orig_argv[1:]])


def description() -> str:
    """Name the Python that runs this, and how fast it runs the loop."""
    asked = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    optimised = "--enable-optimizations" if asked else "CONFIG_ARGS names no optimisation"
    version = ".".join(map(str, sys.version_info[:3]))
    return f"Python {version} ({os.path.realpath(sys.executable)}, {optimised}; loop {_probe_s(sys.executable) * 1e3:.1f} ms)"


def _probe_s(python: str) -> float:
    told = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    return float(told.stdout) if told.returncode == 0 else float("inf")
