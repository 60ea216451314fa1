"""A relay between Fairgate and a real homeserver: bytes pass as they are; requests are kept, and some can be held or failed."""

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field

import h11

_FAILURE = b"HTTP/1.1 %d Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Seen:
    """One request as the homeserver got it; `answer` is the raw beginning of what it said."""

    method: str
    target: str
    fields: dict
    began_at: float
    body_bytes: int = 0
    ended_at: float | None = None  # of its answer's first byte
    answer: bytes = b""

    @property
    def path(self):
        return self.target.partition("?")[0]


@dataclass
class Tap:
    """`fails(seen)`: the status to answer with here, if any. `holds(seen)`: not passed on before `release()`."""

    port: int
    fails: object = None
    holds: object = None
    seen: list = field(default_factory=list)

    def __enter__(self):
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def release(self):
        """Let what is held go on, and hold nothing more."""
        self.holds = None
        self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self):
        held, self._released = self._released, asyncio.Event()
        held.set()

    def of(self, *endings):
        """The requests whose path ends so."""
        return [one for one in list(self.seen) if one.path.endswith(endings)]

    def open(self, ending):
        """How many of these have no answer yet."""
        return sum(one.ended_at is None for one in self.of(ending))

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._released = asyncio.Event()
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _relay(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.transport.abort()
            return
        line = _Line()
        back = asyncio.create_task(self._answers(line, far_reader, writer))
        try:
            with contextlib.suppress(OSError):
                await self._requests(line, reader, writer, far_writer)
        finally:
            far_writer.transport.abort()
            writer.transport.abort()
            back.cancel()

    async def _requests(self, line, reader, writer, far_writer):
        while data := await reader.read(262_144):
            for one in line.take(data):
                self.seen.append(one)
                status = self.fails(one) if self.fails is not None else None
                if status:
                    one.ended_at = time.monotonic()
                    writer.write(_FAILURE % status)
                    await writer.drain()
                    return
                if self.holds is not None and self.holds(one):
                    await self._released.wait()
            far_writer.write(data)
            await far_writer.drain()

    async def _answers(self, line, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(262_144):
                one = line.last
                if one is not None and len(one.answer) < 65_536:
                    one.ended_at = one.ended_at or time.monotonic()
                    one.answer += data
                writer.write(data)
                await writer.drain()
            writer.close()


class _Line:
    """The requests of one connection; Fairgate never sends the next before it has the answer."""

    def __init__(self):
        self.last = None
        self._parser = h11.Connection(h11.SERVER)

    def take(self, data):
        """Give the requests that begin in these bytes."""
        begun = []
        self._parser.receive_data(data)
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return begun
            if isinstance(event, h11.Request):
                fields = {name.decode(): value.decode("latin-1") for name, value in event.headers}
                self.last = Seen(event.method.decode(), event.target.decode(), fields, time.monotonic())
                begun.append(self.last)
            elif isinstance(event, h11.Data):
                self.last.body_bytes += len(event.data)
            elif isinstance(event, h11.EndOfMessage):
                rest, _ = self._parser.trailing_data
                self._parser = h11.Connection(h11.SERVER)
                if rest:
                    self._parser.receive_data(rest)
