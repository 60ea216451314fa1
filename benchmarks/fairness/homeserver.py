"""The stand-in homeserver: 16 request workers, 32 sync workers, each held from a request's head to the last byte of its answer.

As a server with threads: a body is read by the worker, a client that leaves ends nothing, one request at a time per connection,
and who finds no worker waits in one line for all. What takes a millisecond on real ones (whoami, /versions, media config) has
no worker here, only a count. `?ms=` is the service time of anything else, `?bytes=` the size of its answer.

Child of the bench: told `{}` it answers with its figures and lets them begin anew.
"""

import asyncio
import json
import re
import socket
import sys
from functools import cache
from typing import cast
from urllib.parse import unquote

import uvloop

from benchmarks.fairness.addresses import account_of
from benchmarks.fairness.children import answer, questions
from benchmarks.fairness.worker_pool import Counted, WorkerPool

REQUEST_WORKERS = 16
SYNC_WORKERS = 32
_BACKLOG = 4096
_SEND_BYTES = 65_536  # the kernel's buffer a connection, so that a slow reader is felt after this much
_LOOKUP_S = 0.001
_REFUSED_S = 0.001
_UPLOAD_S = 0.005
_MAX_HEAD_BYTES = 131_072
_MIB = 1 << 20
_UPLOAD_LIMIT = b'{"m.upload.size":104857600}'
_VERSIONS = b'{"versions":["v1.1","v1.11"],"unstable_features":{}}'
_SERVER = b'{"server":{"name":"Standin","version":"1.0"}}'
_UNKNOWN_TOKEN = b'{"errcode":"M_UNKNOWN_TOKEN","error":"Invalid access token passed.","soft_logout":false}'
_MISSING_TOKEN = b'{"errcode":"M_MISSING_TOKEN","error":"Missing access token"}'
_REASONS = {200: b"OK", 401: b"Unauthorized"}
_HEAD = (
    b"HTTP/1.1 %d %s\r\nServer: Standin/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_TOKEN = re.compile(rb"\r\nauthorization:[ \t]*Bearer ([^\r]*)", re.IGNORECASE)
_DOWNLOAD = re.compile(rb"/_matrix/(?:client/v1/media|media/v3)/download/[^/]+/(\d+)mib")
_AT_ONCE: dict[bytes, bytes] = {
    b"/_matrix/client/versions": _VERSIONS,
    b"/_matrix/federation/v1/version": _SERVER,
    b"/_matrix/client/v1/media/config": _UPLOAD_LIMIT,
    b"/_matrix/media/v3/config": _UPLOAD_LIMIT,
}


@cache
def _media(mib: int) -> bytes:
    return bytes(mib * _MIB)


class Site:
    """What all connections share: the workers and the figures."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.requests = WorkerPool(REQUEST_WORKERS)
        self.history = Counted(self.requests)
        self.syncs = WorkerPool(SYNC_WORKERS)
        self.lookups = WorkerPool(None)
        self.others = WorkerPool(None)
        self.unconfirmed_upload_bytes = 0

    def report(self) -> dict[str, object]:
        """Give the figures, and begin them anew."""
        pools: dict[str, WorkerPool | Counted] = {
            "requests": self.requests,
            "history": self.history,
            "syncs": self.syncs,
            "lookups": self.lookups,
            "others": self.others,
        }
        figures: dict[str, object] = {name: pool.figures() for name, pool in pools.items()}
        figures["unconfirmed_upload_bytes"] = self.unconfirmed_upload_bytes
        self.unconfirmed_upload_bytes = 0
        for pool in pools.values():
            pool.forget_most()
        return figures


class Request:
    """What a head asks for: whose worker, how long, and the answer."""

    __slots__ = ("body", "length", "pool", "service_s", "status", "unconfirmed_upload")

    def __init__(self, site: Site, head: bytes) -> None:
        method, target, _ = head[: head.index(b"\r\n")].split(b" ", 2)
        path, _, query = target.partition(b"?")
        length = _LENGTH.search(head)
        self.length = int(length[1]) if length else 0
        self.status = 200
        self.body = b"{}"
        self.pool: WorkerPool | Counted
        self.unconfirmed_upload = False
        at_once = _AT_ONCE.get(path)
        if at_once is not None or method == b"OPTIONS":
            self.pool, self.service_s, self.body = site.others, 0.0, at_once or b"{}"
            return
        parameters = dict(pair.split(b"=", 1) for pair in query.split(b"&") if b"=" in pair)
        token = _TOKEN.search(head)
        acts_as = parameters.get(b"user_id")
        ghost = unquote(acts_as.decode()) if acts_as else None
        account = account_of(token[1].decode("latin-1"), ghost) if token else None
        if path.endswith(b"/account/whoami"):
            self.pool, self.service_s = site.lookups, _LOOKUP_S
        elif path.endswith(b"/sync"):
            self.pool, self.service_s = site.syncs, int(parameters.get(b"timeout", b"0")) / 1000
            self.body = b'{"next_batch":"s2"}'
        else:
            self.pool = site.history if path.endswith(b"/messages") else site.requests
            self._work(path, parameters)
        if account is None:
            self.status, self.service_s = 401, _REFUSED_S
            self.body = _UNKNOWN_TOKEN if token else _MISSING_TOKEN
            self.unconfirmed_upload = path.endswith(b"/upload")
        elif self.pool is site.lookups:
            user, device = account
            self.body = json.dumps({"user_id": user, **({"device_id": device} if device else {})}).encode()

    def _work(self, path: bytes, parameters: dict[bytes, bytes]) -> None:
        download = _DOWNLOAD.match(path)
        if download:
            self.service_s, self.body = 0.0, _media(int(download[1]))
        elif path.endswith(b"/upload"):
            self.service_s, self.body = _UPLOAD_S, b'{"content_uri":"mxc://bench/1"}'
        else:
            self.service_s = int(parameters.get(b"ms", b"1")) / 1000
            if b"bytes" in parameters:
                self.body = b" " * int(parameters[b"bytes"])


class Connection(asyncio.Protocol):
    """A connection: head, worker, body, service, answer; then the next head."""

    __slots__ = ("_left", "_lost", "_received", "_request", "_sending", "_site", "_stuffed", "_transport")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._request: Request | None = None
        self._left = 0  # of the body
        self._sending = False
        self._stuffed = False
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; a worker is told of every byte the kernel has not taken."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        """Take a body's bytes, or a head."""
        if self._left:
            more = data[self._left :]
            self._received += more  # a pipelined request's
            self._take(len(data) - len(more))
            return
        self._received += data
        if self._request is None:
            self._read_head()

    def pause_writing(self) -> None:
        """The kernel has not taken all."""
        self._stuffed = True

    def resume_writing(self) -> None:
        """It has."""
        self._stuffed = False
        if self._sending:
            self._end()

    def connection_lost(self, _: Exception | None) -> None:
        """Service goes on; only a body that cannot come, or an answer nobody takes, ends here."""
        self._lost = True
        if self._left or self._sending:
            self._left = 0
            self._end()

    def _read_head(self) -> None:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > _MAX_HEAD_BYTES:
                self._transport.abort()
            elif not self._lost:
                self._transport.resume_reading()
            return
        self._transport.pause_reading()
        try:
            self._request = Request(self._site, bytes(self._received[: end + 2]))
        except ValueError:
            self._transport.abort()
            return
        del self._received[: end + 4]
        self._request.pool.ask(self._work)

    def _work(self) -> None:
        """A worker has it: read the body, then serve."""
        assert self._request is not None
        self._left = self._request.length
        here = min(self._left, len(self._received))
        if here:
            del self._received[:here]
        if not self._left:
            self._serve()
        elif self._lost:
            self._left = 0
            self._end()
        else:
            self._transport.resume_reading()
            if here:
                self._take(here)

    def _take(self, size: int) -> None:
        assert self._request is not None
        if self._request.unconfirmed_upload:
            self._site.unconfirmed_upload_bytes += size
        self._left -= size
        if self._left <= 0:
            self._left = 0
            if not self._lost:
                self._transport.pause_reading()
            self._serve()

    def _serve(self) -> None:
        assert self._request is not None
        self._site.loop.call_later(self._request.service_s, self._answer)

    def _answer(self) -> None:
        assert self._request is not None
        if not self._lost:
            status, body = self._request.status, self._request.body
            self._sending = True
            self._transport.write(_HEAD % (status, _REASONS[status], len(body)) + body)
            if self._stuffed and not self._lost:
                return
        self._end()

    def _end(self) -> None:
        """Give the worker back, and look for the next head."""
        request, self._request, self._sending = self._request, None, False
        if request is None:
            return
        if not self._lost:
            self._site.loop.call_soon(self._next)
        request.pool.give_back()

    def _next(self) -> None:
        if not self._lost and self._request is None:
            self._read_head()


def _listen(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.bind(("127.0.0.1", port))
    return sock


async def _serve(port: int) -> None:
    site = Site(asyncio.get_running_loop())
    server = await site.loop.create_server(lambda: Connection(site), sock=_listen(port), backlog=_BACKLOG)
    answer({"ready": True})
    async for _ in questions():
        answer(site.report())
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve(int(json.loads(sys.argv[1])["port"])))
