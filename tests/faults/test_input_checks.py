"""Checks of input hold without assertions (`python -O`), and time is monotonic."""

import ast
import time
from contextlib import closing
from pathlib import Path

from e2e_support import ROOT
from faults_support import HOARD, Client, ask, put, request, run_through, site

from proxy import clock

PROXY = ROOT / "proxy"
#: Commands for people, apart from the running proxy.
COMMANDS = {"cli/top.py"}
#: Start and reload in the status, the page's plots, times in the record of decisions, a warning about certificates.
FOR_PEOPLE = {"app.py", "admin/views.py", "observability/trace.py", "downstream/tls_context.py"}
BAD = {
    b"GET / HTTP/1.1\r\n\r\n": 400,
    b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n": 400,
    b"GET / HTTP/2.0\r\nHost: a\r\n\r\n": 505,
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\nA: \x00\r\n\r\n": 400,
    b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n": 400,
    b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
    b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": 400,
    b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n": 414,
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n": 405,
}


def modules():
    return [(path, ast.parse(path.read_text())) for path in sorted(PROXY.rglob("*.py"))]


def test_no_assert_statement_stands_in_the_proxy():
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_only_the_clock_reads_time_and_all_but_people_get_it_monotonic():
    """A jump of the wall clock can change nothing but what people read."""
    readers, wall = set(), set()
    for path, tree in modules():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if "time" in names or (isinstance(node, ast.ImportFrom) and node.module == "time"):
                readers.add(str(path.relative_to(PROXY)))
            if isinstance(node, ast.Attribute) and node.attr in ("wall_time", "utcnow", "today"):
                wall.add(str(path.relative_to(PROXY)))
    assert readers - COMMANDS == {"clock.py"}
    assert wall <= FOR_PEOPLE
    assert clock.now is time.monotonic


def test_without_assertions_all_is_served_and_refused_as_with_them(tmp_path, monkeypatch):
    run_through(monkeypatch, tmp_path, "exec env PYTHONOPTIMIZE=1")
    with site(tmp_path) as (fairgate, _):
        assert "PYTHONOPTIMIZE=1" in Path(f"/proc/{fairgate.child.pid}/environ").read_text()
        for data, status in BAD.items():
            with closing(Client(fairgate)) as client:
                assert client.ask(data).status == status, data[:80]
        assert ask(fairgate, request(f"{HOARD}?ms=1")).status == 200
        assert ask(fairgate, put(300_000)).status == 200
        assert ask(fairgate, request(f"{HOARD}?ms=1", token="garbage")).status == 401
