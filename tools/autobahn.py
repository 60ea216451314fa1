"""Autobahn's websocket suite in a venv of its own. It runs on Python 2.7 alone, which few machines have.

Nothing of it is Fairgate's: it is a peer that speaks websocket right and wrong, in some 500 cases, and judges the other side.
"""

import os
import shutil
import subprocess

from tools.console import RUN
from tools.venvs import MARKER, ensure_venv

VENV = RUN / "autobahn-venv"
PYTHON = VENV / "bin" / "python"
_MAKER_VENV = RUN / "virtualenv-venv"
_MAKER = ("virtualenv<20.22",)  # later ones make no venv of 2.7
# All that the suite imports and no more, so that nothing is resolved: it asks for twice as much and its install takes a minute.
_PINS = (
    "argparse==1.4.0",
    "attrs==19.3.0",
    "autobahn==0.10.9",
    "autobahntestsuite==25.10.1",
    "Automat==0.8.0",
    "cffi==1.15.1",
    "constantly==15.1.0",
    "cryptography==3.3.2",
    "enum34==1.1.10",
    "hyperlink==21.0.0",
    "idna==2.10",
    "incremental==16.10.1",
    "ipaddress==1.0.23",
    "Jinja2==2.11.3",
    "linecache2==1.0.0",
    "MarkupSafe==1.1.1",
    "pycparser==2.21",
    "pyOpenSSL==19.1.0",
    "six==1.16.0",
    "traceback2==1.4.0",
    "Twisted==20.3.0",
    "txaio==2.1.0",
    "typing==3.10.0.0",
    "unittest2==1.1.0",
    "zope.interface==5.4.0",
)
_COMPILED = ("wsaccel==0.6.6",)  # without it the mass and compression cases take hours


def install() -> None:
    """Install the suite where there is a Python 2.7; else nothing. Raises ToolError where installing fails."""
    python = _find_python()
    if python is None:
        return
    maker = ensure_venv(_MAKER_VENV, _MAKER, "installing virtualenv for Python 2.7")
    wanted = ("--no-deps", *_PINS, *(_COMPILED if shutil.which("cc") else ()))
    ensure_venv(
        VENV, wanted, "installing Autobahn's websocket suite", (maker, "-m", "virtualenv", "--python", python)
    )


def why_not_here() -> str | None:
    """Say why the suite cannot run; None if it can."""
    if (VENV / MARKER).exists():
        return None
    return "Autobahn's suite needs a python2.7 in PATH, and `make test` or `python -m tools.parts` once"


def _find_python() -> str | None:
    """Return the path of the first Python 2.7; pyenv shows its own only to who asks for that version."""
    if shutil.which("python2.7") is None:
        return None
    asked = subprocess.run(
        ["python2.7", "-c", "import sys; print(sys.executable)"],
        env={**os.environ, "PYENV_VERSION": "2.7"},
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() if asked.returncode == 0 else None
