"""Sockets handed over by the real systemd-socket-activate, which listens before Fairgate runs and then becomes it."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from e2e_support import PYTHON, ROOT, VERSIONS, RawUpstream, read_response, wait_for

from tools.processes import free_port

GET = b"GET /_matrix/client/v3/account/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
O_CLOEXEC = 0o2000000


@pytest.fixture
def upstream():
    def serve(connection):
        while connection.read_head():
            connection.answer(VERSIONS)

    with RawUpstream(serve) as running:
        yield running


@contextlib.contextmanager
def activated(folder, listened, settings, *more):
    """Run Fairgate below systemd-socket-activate, which listens at these addresses."""
    config = folder / "config.yaml"
    config.write_text(json.dumps(settings))
    command = [shutil.which("systemd-socket-activate"), *more]
    for address in listened:
        command += ["--listen", address]
    with (folder / "stderr").open("wb") as err:
        child = subprocess.Popen(
            [*command, PYTHON, "-m", "proxy", "run", "--config", config], cwd=ROOT, stdout=err, stderr=err
        )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(20)


def told(folder):
    return (folder / "stderr").read_text()


def settings_for(upstream, listen, admin, metrics):
    return {
        "listen": [{"address": listen}],
        "homeserver": {"url": upstream.url},
        "admin": {"listen": admin},
        "metrics": {"listen": metrics},
    }


def connected(place):
    """Connect; systemd-socket-activate needs its moment to listen."""

    def attempt():
        sock = socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET)
        try:
            sock.connect(place)
        except OSError:
            sock.close()
            return None
        sock.settimeout(20)
        return sock

    return wait_for(attempt, 10, f"somebody listens at {place}")


def status_of(place, request):
    with connected(place) as sock:
        sock.sendall(request)
        head, _ = read_response(sock)
    return head.split(b" ")[1]


def test_whoever_connected_before_it_ran_is_served(upstream, tmp_path):
    port, metrics, admin = free_port(), free_port(), tmp_path / "admin.sock"
    settings = settings_for(upstream, f"localhost:{port}", f"unix:{admin}", f"127.0.0.1:{metrics}")
    listened = [f"127.0.0.1:{port}", str(admin)]
    with activated(tmp_path, listened, settings, "--fdname=fairgate.socket:admin") as child:
        assert status_of(("127.0.0.1", port), GET) == b"200", told(tmp_path)
        assert status_of(str(admin), b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n") == b"200"
        assert (
            status_of(("127.0.0.1", metrics), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == b"200"
        )
        assert all(closes_with_exec(child.pid, descriptor) for descriptor in (3, 4))
    assert child.returncode == 0, told(tmp_path)
    assert admin.exists(), "a socket that was handed over is not Fairgate's to remove"


def closes_with_exec(pid, descriptor):
    lines = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines()
    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    return int(flags, 8) & O_CLOEXEC != 0


def test_a_socket_at_an_address_that_no_listener_has_is_told(upstream, tmp_path):
    port, other = free_port(), free_port()
    settings = settings_for(upstream, f"127.0.0.1:{port}", "127.0.0.1:0", "127.0.0.1:0")
    with activated(tmp_path, [f"127.0.0.1:{other}"], settings, "--fdname=fairgate.socket") as child:
        connected(("127.0.0.1", other)).close()
        assert child.wait(20) == 1
    assert (
        f"fairgate: not started: sockets were handed over at addresses that no listener in the settings has: "
        f"127.0.0.1:{other} (fairgate.socket); write the same address in both" in told(tmp_path)
    )


def test_one_that_is_not_listened_at_is_told(upstream, tmp_path):
    port = free_port()
    settings = settings_for(upstream, f"127.0.0.1:{port}", "127.0.0.1:0", "127.0.0.1:0")
    with activated(tmp_path, [f"127.0.0.1:{port}"], settings, "--datagram") as child:
        with socket.socket(type=socket.SOCK_DGRAM) as sock:

            def heard():
                with contextlib.suppress(OSError):
                    sock.sendto(b"x", ("127.0.0.1", port))
                return child.poll() is not None

            wait_for(heard, 20, "the end")
        assert child.returncode == 1
    assert "is no listening stream socket: ListenStream= and Accept=no" in told(tmp_path)


def test_what_is_meant_for_another_process_is_left_alone(upstream, tmp_path):
    """A shell between systemd and Fairgate: the variables name the shell."""
    port = free_port()
    settings = settings_for(upstream, f"127.0.0.1:{port}", "127.0.0.1:0", "127.0.0.1:0")
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    environment = {**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
    with (tmp_path / "stderr").open("wb") as err:
        child = subprocess.Popen(
            [PYTHON, "-m", "proxy", "run", "--config", tmp_path / "config.yaml"],
            cwd=ROOT, stderr=err, env=environment,
        )  # fmt: skip
    try:
        assert status_of(("127.0.0.1", port), GET) == b"200"
    finally:
        child.terminate()
        assert child.wait(20) == 0, told(tmp_path)
