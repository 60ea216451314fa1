"""A homeserver with sixteen workers' worth of patience, and clients that take too much of it: for what operators see."""

import contextlib
import json
import re
import socket
import threading
import time

from e2e_support import RawUpstream

_TOKEN = re.compile(rb"\r\nauthorization: bearer (\w+)", re.IGNORECASE)
SERVICE_S = 0.15
POLL_S = 2.0
_PATH = "/_matrix/client/v3/joined_rooms"
_SYNC = "/_matrix/client/v3/sync?since=1&timeout=30000"
_HISTORY = "/_matrix/client/v3/rooms/!a:h/messages?dir=b"


def serve(connection):
    """Answer whoami by the token's name, long polls after a while, anything else after SERVICE_S."""
    while head := connection.read_head():
        token = _TOKEN.search(head)
        if b"/account/whoami" in head:
            name = token[1].decode()
            connection.answer(json.dumps({"user_id": f"@{name}:example.org", "device_id": "D"}).encode())
        else:
            time.sleep(POLL_S if b"/sync?" in head else SERVICE_S)
            status = b"500 Broken" if b"backfill" in head else b"200 OK"
            connection.answer(status=status)


def homeserver():
    return RawUpstream(serve)


class Siege:
    """Clients in threads of their own, each asking again and again on one connection until the end."""

    def __init__(self, port):
        self._port = port
        self._over = threading.Event()
        self._threads = []

    def __enter__(self):
        self.send("hog", _PATH, 40)
        self.send("poller", _SYNC, 12)
        self.send("archivist", _HISTORY, 6)
        self.send("backfill", _HISTORY, 2, "Fairgate-Class: background", pause_s=0.1)
        for name in ("alice", "bob"):
            self.send(name, _PATH, 1, pause_s=0.2)
            self.send(name, _SYNC, 1)
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def send(self, name, target, connections, *fields, pause_s=0.02):
        fields = (f"GET {target} HTTP/1.1", "Host: h", f"Authorization: Bearer {name}", *fields, "", "")
        request = "\r\n".join(fields).encode()
        for _ in range(connections):
            thread = threading.Thread(target=self._ask, args=(request, pause_s))
            self._threads.append(thread)
            thread.start()

    def _ask(self, request, pause_s):
        while not self._over.wait(pause_s):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as sock:
                sock.settimeout(0.5)
                while not self._over.wait(pause_s):
                    sock.sendall(request)
                    if not self._answer(sock):
                        break

    def _answer(self, sock):
        """Wait for the end of one small answer."""
        data = b""
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                more = sock.recv(65536)
                if not more:
                    return False
                data += more
                head, found, body = data.partition(b"\r\n\r\n")
                if found and len(body) >= int(re.search(rb"(?i)content-length: *(\d+)", head)[1]):
                    return True
        return False
