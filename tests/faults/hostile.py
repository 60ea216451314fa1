"""Every kind of hostile client, many at once: what one costs Fairgate, and what is left when they are gone.

`python tests/faults/hostile.py --connections 10000` runs all kinds with so many connections and prints a table; the tests run a
few of each and hold them against budgets. *Held* kinds open their connections and keep them: memory and descriptors for each,
and how long an honest client beside them waits, while they come and once they are all there. *Flow* kinds send as much as is
taken: CPU a wire byte, as a multiple of what a byte of honest small requests costs.
"""

import argparse
import contextlib
import resource
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent / "e2e", HERE.parent.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from faults_support import Client, cpu_s, pss_bytes, request, site, taken  # noqa: E402

ROOM = "/_matrix/client/v3/rooms/!r"
HONEST = request(f"{ROOM}/state?ms=1", token="tok_honest_1")
SETTINGS: dict[str, Any] = {
    # So that all of a kind are there at once, however long it takes to open them.
    "connections": {"first_byte_seconds": 300, "head_seconds": 300, "keep_alive_idle_seconds": 300},
    "bodies": {"rate": {"unconfirmed": {"bytes_per_second": 16384, "grace_seconds": 300}}},
    "log": {"access": "none", "level": "error"},
}
RESET = struct.pack("ii", 1, 0)
#: The honest client beside them asks 20 times a second: 20 ms of work each second, a third of its share among 250 accounts.
PACE_S = 0.05
#: Accounts of kinds that ask for workers, where it is to be seen what connections do: fewer than there are workers.
FEW = 3
MOST_P99 = 2.0  # of the same client's where nobody attacks


def address(number: int) -> str:
    """Give one of 250 addresses."""
    return f"127.5.{number % 5}.{number // 5 % 50 + 1}"


def dial(fairgate: Any, number: int, receive_bytes: int | None = None) -> socket.socket:
    """Connect from an address of many."""
    sock = Client(fairgate, address(number), receive_bytes).sock
    sock.settimeout(0.02)
    return sock


def reset(sock: socket.socket) -> None:
    """Leave so that it is seen at once: an end of stream behind unread bytes would not count as having left (§1.7)."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


def push(sock: socket.socket, data: bytes) -> int:
    """Send as much as is taken at once; give how much that was."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < len(data):
            sent += sock.send(data[sent : sent + 262_144])
    return sent


# Held kinds: each gives its connection when it has said its part.


def idle(fairgate: Any, number: int) -> socket.socket:
    """It says nothing."""
    return dial(fairgate, number)


def parked(fairgate: Any, number: int) -> socket.socket:
    """It asked once, got its answer, and stays."""
    sock = dial(fairgate, number)
    sock.settimeout(20)
    sock.sendall(request("/_matrix/client/versions", token=None))
    sock.recv(65536)
    return sock


def slow_head(fairgate: Any, number: int) -> socket.socket:
    """Half of a head of 2 KiB."""
    sock = dial(fairgate, number)
    push(sock, request(f"{ROOM}/state", token=None, fields=f"X: {'y' * 2048}\r\n")[:1024])
    return sock


def long_head(fairgate: Any, number: int) -> socket.socket:
    """A head as long as may be, but for its end: 60 KiB."""
    sock = dial(fairgate, number)
    push(sock, request(f"{ROOM}/state", token=None, fields=f"X: {'y' * 61_000}\r\n")[:60_000])
    return sock


def waiting_head(fairgate: Any, number: int) -> socket.socket:
    """A whole head of 58 KiB, of a request that waits for a worker; of more than a thousand the others are refused."""
    sock = dial(fairgate, number)
    fields = f"X: {'y' * 58_000}\r\n"
    push(sock, request(f"{ROOM}/state?ms=2000", token=f"tok_l{number % 250}_1", fields=fields))
    return sock


def slow_body(fairgate: Any, number: int) -> socket.socket:
    """60 KiB of a body of 64."""
    sock = dial(fairgate, number)
    push(sock, request(f"{ROOM}/send/m/1", token=None, method="PUT", body=b"x" * 65_000)[:60_000])
    return sock


def slow_reader(fairgate: Any, number: int) -> socket.socket:
    """An answer of 1 MiB that is not read."""
    sock = dial(fairgate, number, 4096)
    push(sock, request("/_matrix/client/v1/media/download/bench/1mib", token=f"tok_r{number % 250}_1"))
    return sock


def pipelines(fairgate: Any, number: int, accounts: int = FEW) -> socket.socket:
    """Requests for 64 KiB each, as many as are taken, and none of the answers."""
    sock = dial(fairgate, number, 4096)
    push(sock, request(f"{ROOM}/state?ms=1&bytes=65536", token=f"tok_p{number % accounts}_1") * 300)
    return sock


def ahead_of_a_wait(fairgate: Any, number: int) -> socket.socket:
    """A long poll, and 30 KiB of a head behind it."""
    sock = dial(fairgate, number)
    token = f"tok_w{number % 250}_{number // 250}"
    poll = request("/_matrix/client/v3/sync?since=s1&timeout=3000", token=token)
    push(sock, poll + request(f"{ROOM}/state", token=token, fields=f"X: {'y' * 40_000}\r\n")[:30_000])
    return sock


def websocket(fairgate: Any, number: int, accounts: int = FEW) -> socket.socket:
    """An upgrade that the homeserver thinks about, and frames at once behind it."""
    sock = dial(fairgate, number)
    fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"
    ask_for = request(f"{ROOM}/ws?ms=2000", token=f"tok_s{number % accounts}_1", fields=fields)
    push(sock, ask_for + b"\x82" * 100_000)
    return sock


AHEAD = 32_768  # §1.6, and the read with which it was reached
#: Kind, and the bytes of memory that one may cost: §1.3, §1.6, §3.1, and what is not yet written to a file.
HELD: dict[str, tuple[Callable[[Any, int], socket.socket], int]] = {
    "idle": (idle, 1_900),
    "parked": (parked, 1_900),
    "slow head": (slow_head, 1_024 + 2_600),
    "long head": (long_head, 60_000 + 8_000),
    "waiting head": (waiting_head, 58_000 + 16_000),
    "slow body": (slow_body, 65_536 + 8_000),
    "ahead of a wait": (ahead_of_a_wait, AHEAD + 8_000),
    "websockets": (websocket, AHEAD + 8_000),
    "websockets of 250": (lambda fairgate, number: websocket(fairgate, number, 250), AHEAD + 8_000),
    "pipelining": (pipelines, 65_536 + AHEAD + 8_000),
    "pipelining of 250": (lambda fairgate, number: pipelines(fairgate, number, 250), 65_536 + AHEAD + 8_000),
    "slow reader": (slow_reader, 262_144 + 262_144 + 196_608),
}
#: More accounts than there are workers ask for one: what an honest client waits until they are done is §4.4's promise.
TAKES_WORKERS = {"websockets of 250", "pipelining of 250", "waiting head"}
#: Of these an honest client waits half a minute, so none asks.
CLOSES_LANES = {"websockets of 250", "waiting head"}


@dataclass(frozen=True)
class Held:
    """What one connection of a kind cost, how many were still there, and whether everything came back.

    An honest client's p99 is a multiple of the same client's at a Fairgate that nobody attacks.
    """

    connections: int
    bytes_each: float
    opened_in_s: float
    honest_p99_meanwhile: float
    honest_p99: float
    left: dict[str, int]


def hold(fairgate: Any, alone: Any, name: str, connections: int) -> Held:
    """Open connections of a kind, look, and close them; `alone` is a Fairgate that nobody else uses."""
    kind = HELD[name][0]
    p99_ratio(fairgate, alone, range(60))  # both have been used
    settle(fairgate)
    before = pss_bytes(fairgate.child.pid)
    with contextlib.ExitStack() as ends:
        with no_honest() if name in CLOSES_LANES else honest_beside(fairgate, alone) as beside:
            began_at = time.monotonic()
            for number in range(connections):
                ends.callback(reset, kind(fairgate, number))
            opened_in_s = time.monotonic() - began_at
            settle(fairgate)
        growth = pss_bytes(fairgate.child.pid) - before
        there = fairgate.connections()
        at_rest = float("nan") if name in CLOSES_LANES else p99_ratio(fairgate, alone, range(300))
    return Held(there, growth / connections, opened_in_s, beside.p99_ratio, at_rest, left(fairgate))


def settle(fairgate: Any) -> None:
    """Wait until Fairgate does nothing but look at those who are there."""
    pid = fairgate.child.pid
    at_rest = 0
    for _ in range(600):
        before = cpu_s(pid)
        time.sleep(0.1)
        at_rest = at_rest + 1 if cpu_s(pid) - before < 0.015 else 0
        if at_rest == 5:
            return


def p99_ratio(fairgate: Any, alone: Any, rounds: Iterable[object]) -> float:
    """Ask both by turns as an honest client, so that what else the machine does meets both; give p99 by p99.

    It is infinite where one was not answered, or refused.
    """
    took: tuple[list[float], list[float]] = ([], [])
    try:
        with contextlib.ExitStack() as ends:
            clients = [
                ends.enter_context(contextlib.closing(Client(one, "127.0.0.9"))) for one in (fairgate, alone)
            ]
            for _ in rounds:
                for client, times_s in zip(clients, took, strict=True):
                    began_at = time.perf_counter()
                    answer = client.ask(HONEST)
                    times_s.append(time.perf_counter() - began_at)
                    if answer.status != 200:
                        return float("inf")
    except OSError:
        return float("inf")
    attacked, unattacked = (statistics.quantiles(times_s, n=100)[98] for times_s in took)
    return attacked / unattacked


def no_honest() -> contextlib.AbstractContextManager[SimpleNamespace]:
    """Have nobody ask meanwhile."""
    return contextlib.nullcontext(SimpleNamespace(p99_ratio=float("nan")))


@contextlib.contextmanager
def honest_beside(fairgate: Any, alone: Any) -> Iterator[SimpleNamespace]:
    """Have an honest client ask meanwhile, in a process of its own; at the end `p99_ratio` is there."""
    found = SimpleNamespace(p99_ratio=float("nan"))
    ports = [str(one.port) for one in (fairgate, alone)]
    command = [sys.executable, __file__, "--honest-client", *ports]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()  # it begins
        try:
            yield found
        finally:
            told, _ = child.communicate("\n", timeout=60)
        found.p99_ratio = float(told)


def every(seconds: float, at_least: int = 10) -> Iterator[None]:
    """Give a turn each so many seconds, until something comes on stdin."""
    turns = 0
    while not select.select([sys.stdin], [], [], seconds)[0] or turns < at_least:
        turns += 1
        yield


def left(fairgate: Any, within_s: float = 20.0) -> dict[str, int]:
    """Give what is still taken some time after everybody left."""
    deadline = time.monotonic() + within_s
    while True:
        counts = {what: number for what, number in taken(fairgate.status()).items() if number}
        if not counts or time.monotonic() > deadline:
            return counts
        time.sleep(0.05)


# Flow kinds: each gives the wire bytes of one go.


def chunked(lines: bytes) -> bytes:
    """Put chunks behind a head."""
    head = request(f"{ROOM}/send/m/1", method="PUT", fields="Transfer-Encoding: chunked\r\n")
    return head + lines + b"0\r\n\r\n"


TINY_CHUNKS = chunked(b"1\r\nx\r\n" * 100_000)
EXTENSIONS = chunked((b"1;" + b"e" * 250 + b"\r\nx\r\n") * 2_000)
MANY_FIELDS = request(f"{ROOM}/state?ms=0", fields="".join(f"X-{n}: {'y' * 20}\r\n" for n in range(94)))
LARGE_FIELDS = request(f"{ROOM}/state?ms=0", fields="".join(f"X-{n}: {'y' * 680}\r\n" for n in range(90)))
HUGE_BODY = request(f"{ROOM}/send/m/1", method="PUT", body=b"x" * 1_000_000)
REFUSED = request(f"{ROOM}/state", fields="Bad Name: x\r\n")


FILLERS = (
    b"a",
    b"0",
    b"%",
    b"%61",
    b"%2f",
    b";",
    b"&",
    b"=",
    b"a=",
    b"&a",
    b"+",
    b"/",
    b".",
    b"-",
    b",",
    b":",
    b"[",
    b'"',
    b"\\",
    b" ",
    b"\t",
)
TARGETS = (
    ROOM + "/state?",
    "/_matrix/client/v3/sync?",
    "/_matrix/client/v3/join/a?server=",
    "/_matrix/client/v3/",
    "/",
)
FIELDS = (
    "Authorization: Bearer",
    "Authorization: X-Matrix",
    "X-Forwarded-For:",
    "Forwarded:",
    "User-Agent:",
    "Cookie:",
    "Upgrade:",
    "Expect:",
)


def hostile_heads() -> Iterator[tuple[str, bytes]]:
    """Give heads that say the same again and again where something is read: whoever searches twice is quadratic."""
    for filler in FILLERS:
        for target in TARGETS:
            long = (filler * 16_000)[:16_000].decode()
            yield f"{target} {filler!r}", request(f"{target}{long}&_id=1", token=None)
        for field in FIELDS:
            long = (filler * 60_000)[:60_000].decode()
            yield f"{field} {filler!r}", request(f"{ROOM}/state", token=None, fields=f"{field} {long}x\r\n")


def costliest_head(fairgate: Any) -> tuple[float, str]:
    """Give CPU seconds a wire byte of the head that costs most, and which it is."""
    pid, costs = fairgate.child.pid, []
    for name, data in hostile_heads():
        before = cpu_s(pid)
        one_go(fairgate, data)
        costs.append(((cpu_s(pid) - before) / len(data), name, data))
    costs.sort(reverse=True)
    return max(
        (min(cost, cpu_per_byte(fairgate, partial(one_go, data=data), 0)), name)
        for cost, name, data in costs[:5]
    )


def one_go(fairgate: Any, data: bytes) -> int:
    """Send once on a connection of its own and wait for the answer."""
    with contextlib.closing(Client(fairgate)) as client:
        client.send(data).answer()
    return len(data)


def honest_go(fairgate: Any, times: int = 100) -> int:
    """Ask small things on one connection."""
    with contextlib.closing(Client(fairgate)) as client:
        for _ in range(times):
            client.ask(HONEST)
    return times * len(HONEST)


def byte_by_byte(fairgate: Any) -> int:
    """A head of which each byte is a packet, each read alone; a packet counts as the bytes of a small request."""
    with contextlib.closing(Client(fairgate)) as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(HONEST)):
            client.send(HONEST[at : at + 1])
            time.sleep(0.0005)
        client.answer()
    return len(HONEST) * len(HONEST)


def comes_and_goes(fairgate: Any, times: int = 50) -> int:
    """Connect and leave, every second time by reset; counted as the bytes of a small request each."""
    for number in range(times):
        with dial(fairgate, number) as sock:
            if number % 2:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return times * len(HONEST)


def guesses_tokens(fairgate: Any, times: int = 50) -> int:
    """Ask with a token nobody has seen, each time another."""
    sent = 0
    with contextlib.closing(Client(fairgate)) as client:
        for _ in range(times):
            data = request(f"{ROOM}/state?ms=0", token=f"garbage{time.perf_counter_ns()}")
            client.ask(data)
            sent += len(data)
    return sent


#: Kind, and CPU a wire byte as a multiple of an honest small request's.
FLOWS: dict[str, tuple[Callable[[Any], int], float]] = {
    "honest body": (lambda fairgate: one_go(fairgate, HUGE_BODY), 0.25),
    "tiny chunks": (lambda fairgate: one_go(fairgate, TINY_CHUNKS), 2.0),
    "chunk extensions": (lambda fairgate: one_go(fairgate, EXTENSIONS), 0.5),
    "many fields": (lambda fairgate: one_go(fairgate, MANY_FIELDS), 2.0),
    "large fields": (lambda fairgate: one_go(fairgate, LARGE_FIELDS), 0.5),
    "refused": (lambda fairgate: one_go(fairgate, REFUSED), 3.0),
    "byte by byte": (byte_by_byte, 0.6),
    "connection churn": (comes_and_goes, 3.0),
    "garbage tokens": (guesses_tokens, 4.0),
}

MOST_OF_A_HEAD = 2.0


def cpu_per_byte(fairgate: Any, go: Callable[[Any], int], for_s: float) -> float:
    """Give CPU seconds a wire byte, the least of three measurements."""
    pid, costs = fairgate.child.pid, []
    go(fairgate)
    for _ in range(3):
        sent, before, until = 0, cpu_s(pid), time.monotonic() + for_s / 3
        while not sent or time.monotonic() < until:
            sent += go(fairgate)
        costs.append((cpu_s(pid) - before) / sent)
    return min(costs)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run all kinds and print a table."""
    parser = argparse.ArgumentParser(description="Every kind of hostile client, many at once.")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--kinds", help="held kinds, by name and comma; all by default")
    parser.add_argument("--honest-client", nargs=2, type=int, help=argparse.SUPPRESS)
    choice = parser.parse_args()
    if choice.honest_client:
        say("it begins")
        say(str(p99_ratio(*(SimpleNamespace(port=port) for port in choice.honest_client), every(PACE_S))))
        return 0
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = choice.kinds.split(",") if choice.kinds else HELD
    missed = 0
    say(
        "| kind | connections | bytes each | budget | opened in s | honest p99 meanwhile | at rest | left |\n"
        "|---|--:|--:|--:|--:|--:|--:|---|"
    )
    for name in kinds:
        budget = HELD[name][1]
        with contextlib.ExitStack() as ends:
            folders = [Path(ends.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
            fairgate, alone = (ends.enter_context(site(folder, **SETTINGS))[0] for folder in folders)
            held = hold(fairgate, alone, name, choice.connections)
        meanwhile = 0.0 if name in TAKES_WORKERS else held.honest_p99_meanwhile
        latency_missed = max(meanwhile, held.honest_p99) > MOST_P99
        missed += bool(held.left) or held.bytes_each > budget or latency_missed
        say(
            f"| {name} | {held.connections:,} of {choice.connections:,} | {held.bytes_each:,.0f} | {budget:,} "
            f"| {held.opened_in_s:.1f} | {held.honest_p99_meanwhile:.1f} x | {held.honest_p99:.1f} x "
            f"| {held.left or 'nothing'} |",
        )
    if choice.kinds is None:
        with tempfile.TemporaryDirectory() as folder, site(Path(folder), **SETTINGS) as (fairgate, _):
            honest = cpu_per_byte(fairgate, honest_go, 1.0)
            say(
                f"\nhonest: {honest * 1e9:.0f} ns a byte\n\n| kind | CPU a byte, honest = 1 | budget |\n|---|--:|--:|"
            )
            for name, (go, most) in FLOWS.items():
                ratio = cpu_per_byte(fairgate, go, 1.0) / honest
                missed += ratio > most
                say(f"| {name} | {ratio:.2f} | {most} |")
            cost, name = costliest_head(fairgate)
            missed += cost / honest > MOST_OF_A_HEAD
            say(f"| the costliest head, {name} | {cost / honest:.2f} | {MOST_OF_A_HEAD} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
