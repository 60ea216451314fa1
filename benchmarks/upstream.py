"""The stand-in homeserver of the cost benchmark: as fast as Python gets, and the same for every peer.

GET of a media path: 100 MiB. GET of a profile: a small JSON answer whose head is never the same twice, by its
trace id, as Synapse's has it. GET of whoami: an account of its own for each token. Any other GET: a small JSON answer with
Synapse's fields. POST: the body is
counted and thrown away, then the small answer. It finds heads by search and parses nothing else, since all
it hears was parsed by a proxy.

Usage: upstream.py PORT [chunked]
"""

import asyncio
import sys
from itertools import count
from typing import cast
from zlib import crc32

import uvloop

MEDIA_BYTES = 100 << 20
_PIECE = bytes(256 << 10)
_ACCOUNT = b"@%08x:"
_BODY = b'{"user_id":"%sexample.org","device_id":"JLAFKJWSCS"}' % (_ACCOUNT % 0)
_FIELDS = (
    b"HTTP/1.1 200 OK\r\nServer: Synapse/1.120.0\r\nDate: Mon, 30 Nov 2026 05:05:00 GMT\r\n"
    b"Content-Type: application/json\r\nCache-Control: no-cache, no-store, must-revalidate\r\n"
    b"Access-Control-Allow-Origin: *\r\n"
    b"Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\n"
    b"Access-Control-Allow-Headers: X-Requested-With, Content-Type, Authorization, Date\r\n"
    b"Access-Control-Expose-Headers: Synapse-Trace-Id, Server\r\n"
)
_MEDIA_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % MEDIA_BYTES
)
_COUNTED = _FIELDS + b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
_CHUNKED = _FIELDS + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(_BODY), _BODY)
_traces = count(1)


class Homeserver(asyncio.Protocol):
    """One connection; requests one after another."""

    __slots__ = ("_answer", "_paused", "_read", "_to_send", "_to_take", "_transport")

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._read = b""
        self._to_take = 0
        self._to_send = 0
        self._paused = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take a body's bytes, or a head."""
        if self._to_take:
            self._take(len(data))
            return
        if self._read:
            data = self._read + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._read = data
            return
        self._read = b""
        if data.startswith(b"POST"):
            fields = data[:end].lower() + b"\r\n"
            self._to_take = int(fields.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
            self._take(len(data) - end - 4)
        elif data.startswith(b"GET /_matrix/media/"):
            self._transport.write(_MEDIA_HEAD)
            self._to_send = MEDIA_BYTES
            self._send()
        elif data.startswith(b"GET /_matrix/client/v3/profile/"):
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nSynapse-Trace-Id: %016x%s" % (next(_traces), self._answer[15:])
            )
        elif data.startswith(b"GET /_matrix/client/v3/account/whoami"):
            token = data.partition(b"Bearer ")[2].partition(b"\r\n")[0]
            self._transport.write(self._answer.replace(_ACCOUNT % 0, _ACCOUNT % crc32(token)))
        else:
            self._transport.write(self._answer)

    def pause_writing(self) -> None:
        """Wait until what was written is taken."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on with the body."""
        self._paused = False
        self._send()

    def _take(self, size: int) -> None:
        self._to_take -= size
        if self._to_take <= 0:
            self._to_take = 0
            self._transport.write(self._answer)

    def _send(self) -> None:
        while self._to_send and not self._paused:
            self._to_send -= len(_PIECE)
            self._transport.write(_PIECE)


async def _serve(port: int, answer: bytes) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: Homeserver(answer), "127.0.0.1", port, backlog=1024
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), _CHUNKED if "chunked" in sys.argv[2:] else _COUNTED))
