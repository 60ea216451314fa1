"""In systemd's place: listening sockets that outlive the processes they are handed to, and what those tell."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys

from e2e_support import PYTHON, ROOT, Fairgate

START_WITHIN_S = 20
#: Puts the descriptors where the protocol wants them, and its own number, which it keeps, where it is looked for.
LAUNCH = """
import os, sys
number, *rest = sys.argv[1:]
given = [int(text) for text in rest[:int(number)]]
for place, descriptor in enumerate(given, 3):
    os.dup2(descriptor, place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=number)
os.execv(rest[int(number)], rest[int(number):])
"""


class Supervisor:
    """Holds a socket for each listener. `start` gives a process that has told it is ready; several may run at once."""

    def __init__(self, folder, homeserver, **settings):
        self.folder = folder
        self._sockets = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(3)]
        self._ports = [held.getsockname()[1] for held in self._sockets]
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._told.bind(str(folder / "notify"))
        self.running = []
        port, admin, metrics = self._ports
        tree = {
            "listen": [{"address": f"127.0.0.1:{port}"}],
            "homeserver": {"url": homeserver},
            "admin": {"listen": f"127.0.0.1:{admin}"},
            "metrics": {"listen": f"127.0.0.1:{metrics}"},
            **settings,
        }
        (folder / "config.yaml").write_text(json.dumps(tree))
        self.url = f"http://127.0.0.1:{port}"

    def start(self):
        folder = self.folder / str(len(self.running))
        folder.mkdir()
        descriptors = [held.fileno() for held in self._sockets]
        config = self.folder / "config.yaml"
        command = [PYTHON, "-m", "proxy", "run", "--config", config]
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            child = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, str(len(descriptors)), *map(str, descriptors), *command],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=descriptors,
                env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")},
            )
        fairgate = Fairgate(*self._ports, child, folder)
        self.running.append(fairgate)
        self.wait_told("READY=1", fairgate)
        return fairgate

    def wait_told(self, state, fairgate):
        """Wait until a process tells a state, and give all it told until then."""
        told = []
        while state not in told:
            ready, _, _ = select.select([self._told], [], [], START_WITHIN_S)
            assert ready, (state, told, fairgate.output[-2000:])
            told += self._told.recv(4096).decode().split("\n")
        return told

    def begin_stop(self, fairgate):
        """Have one drain."""
        fairgate.child.send_signal(signal.SIGTERM)
        self.wait_told("STOPPING=1", fairgate)

    def stop(self, fairgate, within_s=40):
        """Stop one as systemd would, and see that it ended well."""
        if not fairgate.lines("stopping"):
            fairgate.child.send_signal(signal.SIGTERM)
        assert fairgate.child.wait(within_s) == 0, fairgate.output[-2000:]
        assert "Traceback" not in fairgate.output, fairgate.output[-4000:]
        assert not re.search(r"syt_\w", fairgate.output), "a token is in the log"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            for fairgate in self.running:
                if fairgate.child.poll() is None and kind is None:
                    self.stop(fairgate)
        finally:
            for fairgate in self.running:
                with contextlib.suppress(ProcessLookupError):
                    fairgate.child.kill()
                fairgate.child.wait()
            for held in (*self._sockets, self._told):
                held.close()
