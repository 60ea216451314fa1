"""What operators use must neither starve nor stop what clients use, and must itself get through."""

import contextlib
import json
import os
import socket
import urllib.request
from contextlib import ExitStack, closing

import pytest
from e2e_support import wait_for
from faults_support import HOARD, Client, descriptors_of, metrics, request, run_through, site


@pytest.fixture(scope="module")
def quiet_site(tmp_path_factory):
    with site(tmp_path_factory.mktemp("operators"), log={"access": "none"}) as pair:
        yield pair[0]


def fetch(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1) as answer:
        return answer.read()


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHo"], ids=["silent", "half a head"])
@pytest.mark.parametrize("listener", ["admin", "metrics"])
def test_hundreds_of_silent_connections_to_operators_keep_nobody_out(quiet_site, listener, said):
    fairgate = quiet_site
    port = getattr(fairgate, f"{listener}_port")
    before = descriptors_of(fairgate.child.pid)
    with ExitStack() as ends:
        for number in range(600):
            sock = ends.enter_context(socket.socket())
            sock.bind((f"127.0.0.{number % 2 + 2}", 0))
            sock.connect(("127.0.0.1", port))
            with contextlib.suppress(ConnectionError):  # given up for another already
                sock.sendall(said)
        for _ in range(5):
            assert json.loads(fetch(fairgate.admin_port, "/v1/status"))
            assert b"fairgate_build_info" in fetch(fairgate.metrics_port, "/metrics")
            assert fetch(fairgate.metrics_port, "/readyz") == b"ok\n"
        assert descriptors_of(fairgate.child.pid) <= before + 32 + 4
    wait_for(lambda: descriptors_of(fairgate.child.pid) <= before + 4)
    assert fairgate.status()["operators"][listener]["displaced_total"] >= 600 - 32


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_start_without_standard_descriptors_is_one_like_any_other(tmp_path, monkeypatch, closed):
    run_through(monkeypatch, tmp_path, f"exec {closed}; exec")
    with site(tmp_path) as (fairgate, _), closing(Client(fairgate)) as client:
        client.send(request("/_matrix/client/versions", token=None))
        assert client.answer().status == 200


def test_a_log_that_nobody_reads_stops_nobody(tmp_path, monkeypatch):
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    run_through(monkeypatch, tmp_path, f"exec 2>{fifo}; exec")
    #: Its line has 700 bytes; a pipe and Fairgate keep 1.1 MB of them.
    asked = request(f"{HOARD}?{'x' * 400}", token=None)

    def lines_are_lost(fairgate, client):
        client.send(asked * 100)
        answers = b""
        while answers.count(b"HTTP/1.1 401 ") < 100:  # the homeserver's word
            answers += client.sock.recv(65536)
        return fairgate.status()["process"]["log_lines_lost_total"]

    settings = {"log": {"access": "all"}, "connections": {"max_requests": 100_000}}
    with site(tmp_path, **settings) as (fairgate, _), closing(Client(fairgate)) as client:
        client.sock.settimeout(5)
        wait_for(lambda: lines_are_lost(fairgate, client), 60)
        assert metrics(fairgate)["fairgate_log_lines_lost_total"] > 0
    told = b""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(reader, 65536):
            told += data
    os.close(reader)
    assert b'"stopped"' not in told  # it ended within its time, with the pipe full
