"""The hot path as the image has it, compiled, does what its sources do: byte for byte, in every dialogue and case (ADR 21)."""

import os
import subprocess
import sys
import zipfile

import pytest

from proxy import __version__
from tools.compiled import copy_sources, ensure_compiled
from tools.console import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
HOT = (
    "proxy.pipeline",
    "proxy.downstream.connection",
    "proxy.upstream.connection",
    "proxy.http1.request_head",
)


@pytest.fixture(scope="module")
def compiled():
    """Run Python with what is compiled in place of the sources."""
    environment = os.environ | {"PYTHONPATH": str(ensure_compiled())}

    def run(*arguments):
        command = [sys.executable, "-P", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False
        )

    return run


def test_it_is_the_compiled_one_that_is_asked(compiled):
    told = compiled("-c", f"import importlib as i; print(*(i.import_module(m).__file__ for m in {HOT}))")
    assert [path.endswith(".so") for path in told.stdout.split()] == [True] * len(HOT), told.stderr
    assert compiled("-m", "proxy", "version").stdout == f"fairgate {__version__}, compiled\n"


#: mypyc's coroutines pass on what is thrown into them as was usual before Python 3.12, which warns of it. Nobody sees that but
#: tests, which take warnings for errors.
OLD_THROW = "ignore:the (type, exc, tb) signature of throw() is deprecated:DeprecationWarning"


def test_all_dialogues_and_cases_go_as_with_the_sources(compiled):
    tests = ("tests/wire", "tests/conformance")
    played = compiled("-m", "pytest", "-q", "-W", OLD_THROW, "-p", "no:cacheprovider", *tests)
    assert played.returncode == 0, played.stdout[-5000:]


def test_without_being_asked_for_nothing_is_compiled(tmp_path):
    sources, wheels = tmp_path / "sources", tmp_path / "wheels"
    copy_sources(sources)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, sources], check=True
    )
    (made,) = wheels.iterdir()
    assert made.name == "fairgate-0.1.0-py3-none-any.whl"
    assert not [name for name in zipfile.ZipFile(made).namelist() if name.endswith(".so")]
