"""What the end-to-end tests share: Fairgate as a real process, a raw upstream, waiting with a deadline."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tools.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
MIB = 1024 * 1024
PROBES = (b"GET /_matrix/client/versions ", b"GET /_matrix/federation/v1/version ")
VERSIONS = b'{"versions":["v1.11"],"unstable_features":{}}'


def wait_for(condition, within_s=10.0, what="the condition"):
    """Poll until `condition()` is truthy and return that; fails the test at the deadline."""
    deadline = time.monotonic() + within_s
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"{what}: not within {within_s} s"
        time.sleep(0.005)


@dataclass
class Fairgate:
    port: int
    admin_port: int
    metrics_port: int
    child: subprocess.Popen
    folder: Path

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self):
        return "".join((self.folder / name).read_text() for name in ("stdout", "stderr"))

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def memory(self, name="VmRSS"):
        """Bytes of this process, as the kernel counts them."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024

    def status(self):
        """What `/v1/status` says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/v1/status", timeout=5) as answer:
            return json.load(answer)

    def connections(self):
        """How many clients are connected."""
        return sum(self.status()["connections"]["by_state"].values())

    def lines(self, event):
        """The log lines of one kind so far; they are written within a hundredth of a second."""
        time.sleep(0.05)
        told = (self.folder / "stderr").read_text().splitlines()
        found = (json.loads(line) for line in told if f'"{event}"' in line and line.startswith("{"))
        return [line for line in found if line.get("event") == event]

    def ready(self):
        assert self.child.poll() is None, (
            f"fairgate ended with {self.child.returncode}: {self.output[-2000:]}"
        )
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False


@contextlib.contextmanager
def running_fairgate(folder, homeserver, *, profile="auto", **settings):
    """Run the real command in front of the `homeserver` at that URL; at the end it must stop cleanly, with no secret told."""
    port, admin_port, metrics_port = free_port(), free_port(), free_port()
    tree = {
        "listen": [{"address": f"127.0.0.1:{port}"}],
        "homeserver": {"url": homeserver, "profile": profile},
        "admin": {"listen": f"127.0.0.1:{admin_port}"},
        "metrics": {"listen": f"127.0.0.1:{metrics_port}"},
        "log": {"access": "all"},
        **settings,
    }
    config = folder / "config.yaml"
    config.write_text(json.dumps(tree))  # JSON is YAML
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        command = [PYTHON, "-m", "proxy", "run", "--config", config]
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    fairgate = Fairgate(port, admin_port, metrics_port, child, folder)
    try:
        wait_for(fairgate.ready, 20, "/readyz")
        yield fairgate
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        code = child.wait(30)
        assert code == 0, fairgate.output[-2000:]
        assert "Traceback" not in fairgate.output, fairgate.output[-4000:]
        assert not re.search(r"syt_\w|secret-token", fairgate.output), "a token is in the log"
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


class Connection:
    """One accepted connection of `RawUpstream`, blocking."""

    def __init__(self, sock):
        self.sock = sock
        self._buffer = b""

    def read_head(self):
        """The bytes up to and with the empty line; b'' at the end of the stream. Answers probes itself."""
        while True:
            head = self._take_head()
            if not head.startswith(PROBES):
                return head
            self.answer(VERSIONS)

    def _take_head(self):
        while b"\r\n\r\n" not in self._buffer:
            data = self.sock.recv(65536)
            if not data:
                return b""
            self._buffer += data
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        return head + b"\r\n\r\n"

    def read_body(self, length, chunk_bytes=65536):
        """Yield `length` bytes in pieces."""
        while length:
            data = self._buffer[:length] or self.sock.recv(min(length, chunk_bytes))
            assert data, "the body was cut short"
            self._buffer = self._buffer[len(data) :]
            length -= len(data)
            yield data

    def answer(self, body=b"{}", status=b"200 OK"):
        self.sock.sendall(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (status, len(body), body)
        )

    def is_cut(self):
        """Whether the other side has closed or reset already."""
        self.sock.setblocking(False)
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            self.sock.setblocking(True)

    def wait_end(self, within_s):
        """Seconds until the other side closes or resets."""
        began_at = time.monotonic()
        self.sock.settimeout(within_s)
        with contextlib.suppress(ConnectionError):
            while self.sock.recv(65536):
                pass
        return time.monotonic() - began_at


@dataclass
class RawUpstream:
    """A homeserver of plain sockets: `serve(connection)` runs in a thread of its own for each."""

    serve: object
    failures: list = field(default_factory=list)

    def __post_init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = set()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        assert not self.failures, self.failures

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(sock)
            thread = threading.Thread(target=self._run, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _run(self, sock):
        with sock:
            try:
                self.serve(Connection(sock))
            except OSError:
                pass
            except Exception as error:  # noqa: BLE001 -- told to the test at the end
                self.failures.append(error)
            self._open.discard(sock)


def read_response(sock):
    """Head and body of one Content-Length response; b'', b'' where the connection ended instead."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return data, b""
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
    while len(body) < length:
        more = sock.recv(65536)
        assert more, "the response was cut short"
        body += more
    return head, body
