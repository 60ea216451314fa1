"""The real data path between a scripted client and a scripted homeserver, all in one event loop.

A `Dialogue` is data: what the client sends, what the homeserver gets and answers, what the client gets, who closes. `World`
plays it, with every side's bytes cut as a `Cut` says, and then asks once more, to see which connections were kept.

Look-ups of tokens are no requests: `Script.whoami` answers them, and they are kept in `Script.lookups`. Whatever a test does,
`World.calm` wants nothing to be left of it: no connection, worker, place in line, wait, store or spool file.
"""

import asyncio
import random
import re
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from proxy import clock
from proxy.app import Application
from proxy.config.settings import Settings
from proxy.identity.identities import Identities
from proxy.policies.wait_values import WaitStatistics
from proxy.policies.worker_share import WorkerShare
from proxy.policies.worker_statistics import LaneStatistics

PATIENCE_S = 5.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_PROBE = b"GET /probe HTTP/1.1\r\nHost: probe\r\n\r\n"
_PROBE_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nprobe"
_VIA = b"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
_ID = re.compile(rb"X-Request-Id: fg-[0-9a-f]{8}-[0-9a-f]+\r\n")
_WHOAMI = b"GET /_matrix/client/v3/account/whoami"
_LARGE = 2048
_SLOW_EDGE = 128


@dataclass(frozen=True)
class Await:
    """A client's step: go on when the answer so far ends with this."""

    end: bytes


END, LEAVE = "the client sends no more", "the client resets its connection"
Step = bytes | Await | str


@dataclass(frozen=True)
class Answer:
    """What the homeserver does once it has a whole `request`, a `head`, or the given bytes; and what `then`."""

    data: bytes
    after: str | bytes = "request"
    then: str = "keep"  # or close, reset


@dataclass(frozen=True)
class Dialogue:
    """See the module. In `got`, `<via>` and `<id>` stand for the fields that Fairgate adds.

    `got` None: whatever arrived, no request was whole. `on`: the connection of each request, by number. `closed`: "" where
    the client's connection is kept. `reused`: whether the last connection to the homeserver serves another request.
    """

    name: str
    sent: tuple[Step, ...]
    got: tuple[bytes, ...] | None = ()
    answers: tuple[Answer, ...] = (Answer(OK),)
    client: bytes = b""
    refusal: tuple[int, str] | None = None
    closed: str = ""
    reused: bool = True
    on: tuple[int, ...] | None = None


class Cut:
    """How bytes are cut on their way."""

    def __init__(self, name: str, seed: int | None = None) -> None:
        self.name = name
        self._seed = seed

    def __call__(self, data: bytes) -> Iterator[bytes]:
        if self.name == "whole":
            return iter([data] if data else [])
        if self.name == "byte by byte":
            if len(data) <= _LARGE:
                return (data[at : at + 1] for at in range(len(data)))
            middle = data[_SLOW_EDGE:-_SLOW_EDGE]
            pieces = [data[at : at + 1] for at in range(_SLOW_EDGE)]
            pieces += [middle[at : at + 1021] for at in range(0, len(middle), 1021)]
            pieces += [data[at : at + 1] for at in range(len(data) - _SLOW_EDGE, len(data))]
            return iter(pieces)
        chance = random.Random(f"{self._seed} {len(data)}")
        ends = sorted({*(chance.randrange(len(data) + 1) for _ in range(chance.randint(1, 6))), len(data)})
        return (data[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start)


WHOLE, BYTES = Cut("whole"), Cut("byte by byte")
CUTS = (WHOLE, BYTES, Cut("at random, once", 1), Cut("at random, twice", 2))


class Line(asyncio.Protocol):
    """One end of a connection; keeps all it received, and how it ended: None, eof or reset."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ended: str | None = None
        self.transport: asyncio.Transport | None = None
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._changed.set()

    def eof_received(self) -> bool:
        self.ended = self.ended or "eof"
        self._changed.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = self.ended or ("reset" if exc else "eof")
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def until_received(self, end: bytes) -> None:
        await self.until(lambda: self.received.endswith(end) or self.ended is not None)

    async def until_ended(self) -> bytes:
        """Wait for the other side's end; close, and give all that came."""
        await self.until(lambda: self.ended is not None)
        self.transport.close()
        return bytes(self.received)

    def reset(self) -> None:
        """Leave without a word: closing a socket that does not linger sends RST."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def send(self, data: bytes, cut: Cut = WHOLE) -> None:
        for piece in cut(data):
            if self.transport.is_closing():
                return
            self.transport.write(piece)
            await turn()


async def turn() -> None:
    """Let the other side read what was just written."""
    for _ in range(2):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells of."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  (it is state of the other side's, with no event to wait for)
            await asyncio.sleep(0)


@dataclass
class Request:
    """What the homeserver got as one request; `whole` unless its connection ended before its end."""

    connection: int
    data: bytes
    whole: bool


@dataclass
class Script:
    """What the homeserver is to do next, and what it saw. `whoami` None: it does not answer look-ups of its own accord."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    cut: Cut = WHOLE
    whoami: Callable[[bytes], bytes] | None = None
    lookups: list[Request] = field(default_factory=list)


class HomeserverLine(Line):
    """A connection at the homeserver's side."""

    def __init__(self, homeserver: "Homeserver") -> None:
        super().__init__()
        self.number = len(homeserver.lines)
        self._homeserver = homeserver
        self._acting: asyncio.Task[None] | None = None
        homeserver.lines.append(self)

    @property
    def busy(self) -> bool:
        return self._acting is not None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def eof_received(self) -> bool:
        super().eof_received()
        self._note_rest()
        self.transport.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._note_rest()

    def _note_rest(self) -> None:
        if self.received:
            self._homeserver.script.requests.append(Request(self.number, bytes(self.received), whole=False))
            self.received.clear()

    def _look(self) -> None:
        script = self._homeserver.script
        if self._acting is not None:
            return
        if self.received.startswith(_WHOAMI):
            self._look_up(script)
            return
        if self.received.startswith(_PROBE[:10]):
            answer = Answer(_PROBE_ANSWER)
        elif script.answers:
            answer = script.answers[0]
        else:
            answer = Answer(b"HTTP/1.1 299 Unexpected\r\nContent-Length: 0\r\n\r\n")
        size = _size_of(bytes(self.received), answer.after)
        if size is None:
            return
        if script.answers and answer is script.answers[0]:
            script.answers.pop(0)
        whole = answer.after == "request"
        script.requests.append(Request(self.number, bytes(self.received[:size]), whole))
        del self.received[:size]
        self._acting = asyncio.get_running_loop().create_task(self._act(answer, script.cut))

    def _look_up(self, script: Script) -> None:
        size = _size_of(bytes(self.received), "request")
        if size is None:
            return
        asked = bytes(self.received[:size])
        del self.received[:size]
        script.lookups.append(Request(self.number, asked, whole=True))
        if script.whoami is not None:
            self.transport.write(script.whoami(asked))

    async def _act(self, answer: Answer, cut: Cut) -> None:
        await self.send(answer.data, cut)
        self._acting = None
        if answer.then == "reset":
            self.reset()
        elif answer.then == "close":
            self.transport.close()
        else:
            self._look()


def _size_of(data: bytes, after: str | bytes) -> int | None:
    """Tell where what the homeserver waits for ends; it trusts Fairgate to send nothing but plain requests."""
    if isinstance(after, bytes):
        at = data.find(after)
        return None if at < 0 else at + len(after)
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    end += 4
    if after == "head":
        return end
    head = data[:end].lower()
    length = re.search(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", head)
    if length is not None:
        end += int(length[1])
        return end if len(data) >= end else None
    if re.search(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", head) is not None:
        return _end_of_chunks(data, end)
    return end


def _end_of_chunks(data: bytes, at: int) -> int | None:
    """Go from chunk to chunk; extensions and trailers must have been taken out."""
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line_end], 16)
        at = line_end + 2 + size + 2
        if len(data) < at:
            return None
        assert data[at - 2 : at] == b"\r\n"
        if not size:
            return at
    return None


class Homeserver:
    """Listens, and does what the script says."""

    def __init__(self) -> None:
        self.script = Script()
        self.lines: list[HomeserverLine] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: HomeserverLine(self), "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    def begin(self, answers: tuple[Answer, ...], cut: Cut = WHOLE) -> Script:
        """Start a new script, with no connection open."""
        self.script = Script(list(answers), [], cut)
        self.lines = []
        return self.script

    @property
    def busy(self) -> bool:
        return any(line.busy for line in self.lines)

    def hang_up(self) -> None:
        for line in self.lines:
            line.transport.abort()

    async def stop(self) -> None:
        self.hang_up()
        self._server.close()
        await until(lambda: all(line.transport.is_closing() for line in self.lines))


#: A package's tests share a loop, and worlds on it: whose fault it is nobody can tell, so each of them notes it.
_running: list[tuple[asyncio.AbstractEventLoop, "World"]] = []


def _tell_worlds(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    worlds = [world for its_loop, world in _running if its_loop is loop]
    for world in worlds:
        world.faults.append(context)
    if not worlds:
        loop.default_exception_handler(context)


class World:
    """Fairgate's data path as `Application` builds it, and a homeserver. `faults` is what the event loop complained of."""

    def __init__(
        self, settings: dict[str, object] | None = None, *, turn_s: float = 0.01, path: Path | None = None
    ) -> None:
        self.homeserver = Homeserver()
        self.faults: list[dict[str, object]] = []
        self._settings = settings or {}
        self._turn_s = turn_s  # short, so that deadlines are found soon and tests need not wait
        self._path = path
        self.application: Application | None = None
        self.port = 0
        self._stopped = False

    async def start(self, homeserver_port: int | None = None) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_tell_worlds)
        _running.append((loop, self))
        port = await self.homeserver.start()
        homeserver = {
            "url": f"http://127.0.0.1:{homeserver_port or port}",
            "profile": "generic",  # whose sixteen workers are one pool, and which ends nothing with its client
            **self._settings.get("homeserver", {}),
        }
        settings = {
            "listen": [{"address": "127.0.0.1:0"}],
            "admin": {"listen": "127.0.0.1:0"},
            "metrics": {"listen": "127.0.0.1:0"},
            "log": {"access": "none"},
            **self._settings,
            "homeserver": homeserver,
        }
        self.application = Application(Settings.model_validate(settings), self._path, turn_s=self._turn_s)
        await self.application.start()
        self.port = int(self.application.listener.addresses[0].rpartition(":")[2])

    async def stop_application(self, at_once: asyncio.Event) -> None:
        self._stopped = True
        await self.application.stop(at_once)

    async def stop(self) -> None:
        if not self._stopped:
            at_once = asyncio.Event()
            at_once.set()
            await self.stop_application(at_once)
        await self.homeserver.stop()
        _running.remove((asyncio.get_running_loop(), self))

    async def connect(self, address: str = "127.0.0.1") -> Line:
        """Open a client's connection, from any address of loopback: each is a client key of its own."""
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(Line, "127.0.0.1", self.port, local_addr=(address, 0))
        return line

    async def calm(self) -> None:
        """Wait until nobody is connected to anybody."""
        self.homeserver.hang_up()
        await until(lambda: not len(self.application.listener.connections))
        await until(lambda: not any(self.pool_places()))
        await self.until_nothing_is_left()
        faults, self.faults = self.faults, []
        assert faults == []

    async def until_nothing_is_left(self) -> None:
        """Wait until every count of what requests take is zero; what the disk's threads still do ends by itself."""
        try:
            await until(lambda: not any(self.taken().values()))
        except TimeoutError:
            raise AssertionError(f"left behind: {self.taken()}") from None

    def pool_places(self) -> tuple[int, int, int, int]:
        pool = self.application.pool.statistics()
        return pool.connecting, pool.idle, pool.busy, pool.waiting

    # What requests take, from the parts' own books.

    @property
    def identities(self) -> Identities:
        return self.application.pipeline.identity.identities

    @property
    def share(self) -> WorkerShare:
        return self.application.pipeline.workers.share

    @property
    def waits(self) -> WaitStatistics:
        return self.application.pipeline.waits.budgets.statistics()

    def lane(self, name: str) -> LaneStatistics:
        lanes = self.share.statistics(clock.now()).lanes
        return next(lane for lane in lanes if lane.name == name)

    def workers(self, name: str = "requests") -> tuple[int, int, int]:
        """Give how many of a lane's workers run and are held, and how many requests wait for one."""
        lane = self.lane(name)
        return lane.running, lane.held, lane.waiting

    def taken(self) -> dict[str, int]:
        """Count everything that a request takes and must give back."""
        taken: dict[str, int] = {}
        for lane in self.share.statistics(clock.now()).lanes:
            taken[f"{lane.name} running"] = lane.running
            taken[f"{lane.name} held"] = lane.held
            taken[f"{lane.name} waiting"] = lane.waiting
        waits = self.waits
        taken["long polls, live"] = waits.live
        taken["long polls, ghosts"] = waits.ghosts
        taken["long polls, parked"] = waits.parked
        gate = self.application.pipeline.background.gate.statistics(clock.now())
        taken["background requests"] = gate.active + gate.held + gate.waiting
        taken["websockets"] = self.application.pipeline.tunnels.tunnels.statistics().open
        pushers = self.application.pipeline.pushers.cap.statistics()
        taken["registrations of pushers"] = pushers.in_turn + pushers.waiting
        identity = self.identities.statistics()
        taken["requests that wait to be known"] = identity.waiting
        taken["look-ups"] = identity.running + identity.queued
        bodies = self.application.pipeline.bodies
        for name, stores in (("bodies", bodies.requests), ("answers", bodies.answers)):
            taken[f"{name} kept"] = stores.open
            taken[f"bytes of {name} on disk"] = stores.disk.statistics().taken_bytes
            taken[f"bytes of {name} in memory"] = stores.memory.statistics().taken_bytes
        taken["bodies without an account that stream"] = self.application.pipeline.streams.bodies.streaming
        spool = self.application._spool.statistics()
        taken["spool files"] = spool.open_files
        taken["operations on disk"] = spool.operations_in_flight
        taken["bytes on disk"] = spool.disk_bytes
        pool = self.application.pool.statistics()
        taken["connections to the homeserver in use"] = pool.busy + pool.connecting
        taken["waits for a connection to the homeserver"] = pool.waiting
        taken["sockets watched for a hang-up"] = len(self.application.listener.hangups._watched)
        return taken

    async def play(self, dialogue: Dialogue, cut: Cut) -> list[Request]:
        """Play a dialogue, hold it against what it says, and give the requests that the homeserver got."""
        script = self.homeserver.begin(dialogue.answers, cut)
        line = await self.connect()
        try:
            await self._speak(line, dialogue, cut)
            await until(lambda: not self.homeserver.busy)
            await turn()
            _check_client(line, dialogue)
            if dialogue.closed != "reset" and not (dialogue.refusal and dialogue.got == ()):
                await self._probe(line, dialogue)
            elif dialogue.got == ():
                assert self.homeserver.lines == [], "something reached the homeserver"
        finally:
            line.transport.abort()
            await self.calm()
        requests = [request for request in script.requests if not request.data.startswith(_PROBE[:10])]
        _check_requests(requests, dialogue)
        return requests

    async def _speak(self, line: Line, dialogue: Dialogue, cut: Cut) -> None:
        for step in dialogue.sent:
            if isinstance(step, Await):
                await line.until_received(step.end)
            elif step is END:
                line.transport.write_eof()
            elif step is LEAVE:
                line.reset()
            else:
                await line.send(step, cut)
        if dialogue.closed:
            await line.until(lambda: line.ended is not None)
        elif dialogue.refusal:
            await line.until(lambda: line.received.endswith(b"}") or line.ended is not None)
        else:
            await line.until(lambda: len(line.received) >= len(dialogue.client) or line.ended is not None)

    async def _probe(self, line: Line, dialogue: Dialogue) -> None:
        """Ask once more, on the same connection where it is kept: nothing may lie about that belongs to what was before."""
        if dialogue.closed:
            line.transport.abort()
            line = await self.connect()
        start = len(line.received)
        number = len(self.homeserver.lines) - 1
        await line.send(_PROBE)
        await line.until(lambda: len(line.received) >= start + len(_PROBE_ANSWER) or line.ended is not None)
        assert bytes(line.received[start:]) == _PROBE_ANSWER
        line.transport.abort()
        probed = next(r for r in self.homeserver.script.requests if r.data.startswith(_PROBE[:10]))
        assert number < 0 or (probed.connection == number) is dialogue.reused, (
            "whether the homeserver's connection is used again"
        )


def _check_client(line: Line, dialogue: Dialogue) -> None:
    received = bytes(line.received)
    if dialogue.refusal is None:
        assert received == dialogue.client
    else:
        assert received.startswith(dialogue.client)
        assert refusal_in(received[len(dialogue.client) :]) == dialogue.refusal
    assert (line.ended or "") == dialogue.closed


def refusal_in(answer: bytes) -> tuple[int, str]:
    """Give status and reason of one of Fairgate's own answers, which must be nothing else."""
    head, _, body = answer.partition(b"\r\n\r\n")
    reason = re.search(rb"\r\nFairgate-Reason: ([a-z_]+)", head)
    length = re.search(rb"\r\nContent-Length: ([0-9]+)", head)
    assert reason is not None, answer
    assert length is not None, answer
    assert len(body) in (0, int(length[1]))
    return int(head.split(b" ")[1]), reason[1].decode()


def _check_requests(requests: list[Request], dialogue: Dialogue) -> None:
    if dialogue.got is None:
        assert not any(request.whole for request in requests)
        return
    assert tuple(marked(request.data) for request in requests) == dialogue.got
    if dialogue.on is not None:
        assert tuple(request.connection for request in requests) == dialogue.on


def marked(data: bytes) -> bytes:
    """Put marks in the place of what Fairgate adds to a request."""
    data = _ID.sub(b"<id>", data.replace(_VIA, b"<via>"))
    return re.sub(rb"Host: 127\.0\.0\.1:[0-9]+\r\n", b"Host: <homeserver>\r\n", data)
