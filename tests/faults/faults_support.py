"""What the fault tests share: a homeserver that can be killed and stopped, Fairgate's own counts, what a kind refusal is."""

import contextlib
import json
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import e2e_support
from e2e_support import ROOT, read_response, running_fairgate

from tools.processes import free_port

HOARD = "/_matrix/client/v3/rooms/!r/state"
POLL = "/_matrix/client/v3/sync?since=s1&timeout=30000"


class StandIn:
    """The stand-in homeserver of the fairness bench, as a process: it can be killed, stopped and started again."""

    def __init__(self):
        self.port = free_port()
        self.child = None
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        assert self.child is None
        command = [sys.executable, "-m", "benchmarks.fairness.homeserver", json.dumps({"port": self.port})]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        assert self.child.stdout.readline()

    def figures(self):
        self.child.stdin.write(b"{}\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def kill(self):
        child, self.child = self.child, None
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()

    def stop(self):
        self.child.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.child.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def stand_in():
    homeserver = StandIn()
    try:
        yield homeserver
    finally:
        if homeserver.child is not None:
            homeserver.kill()


@contextlib.contextmanager
def site(folder, **settings):
    """Fairgate as a process in front of a stand-in; at the end nothing may be left of what was asked."""
    with stand_in() as homeserver:
        settings.setdefault("log", {"access": "refused"})
        with running_fairgate(folder, homeserver.url, profile="generic", **settings) as fairgate:
            yield fairgate, homeserver
            _end(fairgate, homeserver)


def _end(fairgate, homeserver):
    if homeserver.child is None:
        homeserver.start()
    homeserver.go_on()
    wait_until_nothing_is_left(fairgate)


def run_through(monkeypatch, folder, prefix):
    """Have the process started as a shell starts it with a command in front."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\n{prefix} {e2e_support.PYTHON} "$@"\n')
    script.chmod(0o700)
    monkeypatch.setattr(e2e_support, "PYTHON", script)


def request(target, *, token="tok_alice_1", method="GET", body=None, fields=""):
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: bench\r\n{authorization}{fields}{length}\r\n"
    return head.encode() + (body or b"")


def put(size, ms=1, token="tok_alice_1"):
    target = f"/_matrix/client/v3/rooms/!r/send/m.room.message/1?ms={ms}"
    return request(target, method="PUT", body=b"x" * size, token=token)


class Client:
    """A blocking client at an address of its own."""

    def __init__(self, fairgate, address="127.0.0.1", receive_bytes=None):
        self.sock = socket.socket()
        self.sock.settimeout(20)
        if receive_bytes is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.bind((address, 0))
        self.sock.connect(("127.0.0.1", fairgate.port))

    def send(self, data):
        self.sock.sendall(data)
        return self

    def answer(self):
        return Answer(*read_response(self.sock))

    def ask(self, data):
        return self.send(data).answer()

    def close(self):
        self.sock.close()


def ask(fairgate, data, address="127.0.0.1"):
    """One request on a connection of its own."""
    with contextlib.closing(Client(fairgate, address)) as client:
        return client.ask(data)


class Answer:
    """What a client got."""

    def __init__(self, head, body):
        assert head.startswith(b"HTTP/1.1 "), head[:100]
        self.status = int(head[9:12])
        self.head = head
        self.body = body

    def field(self, name):
        match = re.search(rb"(?i)\r\n" + name.encode() + rb": ([^\r]*)", self.head)
        return match and match[1].decode()

    def reason_of_kind_refusal(self):
        """Why it was refused; the refusal must be one that clients of Matrix bear well (§10.1)."""
        told = json.loads(self.body)
        assert told["errcode"] == "M_LIMIT_EXCEEDED"
        assert told["error"]
        assert 1000 <= told["retry_after_ms"] <= 60_000
        assert int(self.field("Retry-After")) == -(-told["retry_after_ms"] // 1000)
        assert self.field("Access-Control-Allow-Origin") == "*"
        assert "Retry-After" in self.field("Access-Control-Expose-Headers")
        assert self.field("Cache-Control") == "no-store"
        return self.field("Fairgate-Reason")


def taken(status):
    """Everything that requests take and must give back, by `/v1/status`."""
    bodies, pool, waits = status["bodies"], status["upstream"]["pool"], status["waits"]
    identity, gate = status["identity"], status["homeservers"][0]
    counts = {f"{lane['name']} {what}": lane[what] for lane in status["workers"]["lanes"] for what in LANE}
    counts |= {f"waits {what}": waits[what] for what in ("used", "live", "ghosts", "parked")}
    counts |= {what: identity[what] for what in ("lookups_running", "lookups_queued", "requests_waiting")}
    counts |= {f"background {what}": gate[what] for what in ("active", "held", "waiting")}
    counts |= {f"bodies of {way}": bodies[way]["open"] for way in ("requests", "answers")}
    counts |= {f"disk of {way}": bodies[way]["disk"]["taken_bytes"] for way in ("requests", "answers")}
    counts |= {f"pool {what}": pool[what] for what in ("busy", "connecting", "waiting")}
    counts |= {
        f"spool {what}": bodies["spool"][what]
        for what in ("open_files", "disk_bytes", "operations_in_flight")
    }
    counts["memory"] = bodies["memory"]["taken_bytes"]
    counts["bodies that stream"] = bodies["streaming_unconfirmed"]
    counts["tunnels"] = status["tunnels"]["open"]
    counts["pushers"] = status["pushers"]["in_turn"] + status["pushers"]["waiting"]
    counts["clients"] = sum(status["connections"]["by_state"].values())
    return counts


LANE = ("running", "held", "waiting")


def wait_until_nothing_is_left(fairgate, within_s=5.0):
    """Wait until all that requests took is back, and no descriptor but those of idle connections is left."""

    def left():
        return {what: number for what, number in taken(fairgate.status()).items() if number}

    deadline = time.monotonic() + within_s
    while left():
        assert time.monotonic() < deadline, f"left behind: {left()}"
        time.sleep(0.02)


def own_descriptors(fairgate):
    """Count the descriptors that are neither a client's nor of an idle connection to the homeserver."""
    status = fairgate.status()
    clients = sum(status["connections"]["by_state"].values())
    return status["process"]["open_descriptors"] - clients - status["upstream"]["pool"]["idle"]


def metrics(fairgate):
    """Every sample of `/metrics`, by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{fairgate.metrics_port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def cpu_s(pid):
    """CPU seconds of another process: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of linux/posix-timers.h."""
    return time.clock_gettime((~pid << 3) | 2)


def pss_bytes(pid):
    """Memory of its own: pages of files count by how many processes share them, which come and go."""
    found = re.search(r"^Pss_Anon:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) * 1024


def descriptors_of(pid):
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def closed(socks, within_s):
    """Give how many of the sockets the other side closed, waiting for all."""
    left, deadline = set(socks), time.monotonic() + within_s
    while left and (rest := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select(left, [], [], rest)
        for sock in ready:
            with contextlib.suppress(OSError):
                if sock.recv(65536):
                    continue
            left.discard(sock)
    return len(socks) - len(left)
