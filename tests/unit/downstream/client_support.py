"""A client's connection under test: everything around it is a list of what was asked of it."""

import asyncio
import socket
import tempfile
from pathlib import Path
from types import SimpleNamespace

from proxy.downstream.ahead import Ahead
from proxy.downstream.client_socket import BUFFER
from proxy.downstream.connection import ClientConnection
from proxy.downstream.settings import ConnectionSettings
from proxy.identity.client_key import ClientKeys
from proxy.identity.networks import Networks
from proxy.identity.principal import anonymous
from proxy.matrix.routes import find_endpoint
from proxy.spool.settings import BodyRatesSettings
from proxy.spool.spool import Spool
from proxy.spool.stores import BodyStores, disk_budget, memory_budget
from proxy.upstream.bodies import Bodies
from proxy.upstream.exchange import ENDED, READING, Exchange

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Transport:
    """Takes all that is written while `room` is there, as an event loop's transport would tell its protocol."""

    def __init__(self, protocol, room=65_536):
        self.protocol = protocol
        self.room = room
        self.written = bytearray()
        self.taken = 0
        self.misses = 0  # how many writes past it find no room
        self.paused = False
        self.ended = False
        self.end = None
        self._full = False
        self.socket, self.peer = socket.socketpair()

    def write(self, data):
        self.written += data
        if not self._full and self.get_write_buffer_size() > self.room:
            self._full = True
            self.protocol.pause_writing()

    def take(self):
        """The client takes all."""
        self.taken = len(self.written)
        if self._full:
            self._full = False
            self.protocol.resume_writing()

    def set_write_buffer_limits(self, high):
        pass  # `room` is what the test says

    def take_everything(self):
        """The client takes all that there is, as fast as it comes."""
        while self.get_write_buffer_size():
            self.take()

    def get_write_buffer_size(self):
        return len(self.written) - self.taken

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False

    def set_protocol(self, protocol):
        self.protocol = protocol

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def close(self):
        self.end = self.end or "closed"

    def abort(self):
        self.end = self.end or "aborted"

    def is_closing(self):
        return self.end is not None

    def get_extra_info(self, name, default=None):
        return {"socket": self.socket, "peername": ("192.0.2.1", 1)}.get(name, default)


class Upstream:
    """The homeserver's side of an exchange."""

    tunnel = False
    used_before = False

    def __init__(self):
        self.client_full = False
        self.written = bytearray()
        self.abandoned = False

    def write(self, data):
        self.written += data

    def write_eof(self):
        pass

    def has_sent_all(self):
        return True

    def set_client_full(self, full):
        self.client_full = full

    def abandon(self):
        self.abandoned = True

    def go_on_until(self, _):
        self.abandoned = True


class Pipeline:
    """Answers nothing by itself: `on_admit(exchange)` says what happens to a request."""

    max_hold_s = 900.0

    def __init__(self, on_admit):
        spool = Spool(Path(tempfile.gettempdir()) / "fairgate-test-spool")
        memory, disk = memory_budget(1 << 26), disk_budget(1 << 26)
        stores = [BodyStores(spool, memory=memory, disk=disk, memory_bytes=65_536) for _ in range(2)]
        self.bodies = Bodies(*stores, BodyRatesSettings())
        self.answers = stores[1]
        self.client_keys = ClientKeys(trusted_proxies=Networks(()))
        self.on_admit = on_admit
        self.spool = spool
        self.exchanges = []

    def begin(self, port, head, asker, now):
        endpoint = find_endpoint(head.method, head.target)
        exchange = Exchange(port, asker, head, endpoint, b"", self, 180.0, now)
        exchange.principal = anonymous(asker)
        self.exchanges.append(exchange)
        return exchange

    def admit(self, exchange, _):
        self.on_admit(exchange)

    @staticmethod
    def refusal(reason, *_, **__):
        return b"<%s>" % reason.value.encode()

    def read_body(self, exchange):
        exchange.stage = READING
        exchange.client.body_wanted()

    def body_floor(self, exchange, now):
        return self.bodies.floor(exchange.principal, now)

    def body_too_slow(self, exchange, now):
        return self.bodies.too_slow(exchange.body, exchange.principal, now)

    def new_store(self, exchange):
        return self.bodies.request_store(exchange.principal)

    def body_grows(self, exchange, body):
        pass

    def body_read(self, exchange):
        pass

    def ends_with_client(self, _):
        return True

    def withdraw(self, exchange):
        exchange.stage = ENDED

    def ended(self, exchange, _):
        exchange.stage = ENDED
        exchange.end_body()

    def tunnelled(self, exchange):
        pass


class ConnectionOfTransport(ClientConnection):
    """Has no kernel to write to, only the transport; which takes `room` at once."""

    __slots__ = ()

    def _send_at_once(self, data):
        if self.transport.misses:
            self.transport.misses -= 1
            return 0
        size = min(len(data), max(0, self.transport.room - self.transport.get_write_buffer_size()))
        self.transport.write(data[:size])
        return size


class Client:
    """One connection, `send`ing to it, and all that is around it."""

    def __init__(self, on_admit=lambda _: None, *, room=65_536, **settings):
        self.pipeline = Pipeline(on_admit)
        self.settings = ConnectionSettings(**settings)
        self.watched = set()
        self.left = []
        listener = self.listener = SimpleNamespace(
            pipeline=self.pipeline, settings=self.settings, turn_at=0.0, parked_until=75.0, stopping=False, logs_all=False,
            max_requests=1_000_000, max_age_s=1e9, max_head_bytes=65_536, max_fields=100, max_target_bytes=16_384,
            trusted_parked_until=660.0,
            hangups=SimpleNamespace(
                watch=lambda connection, _, **__: self.watched.add(connection),
                forget=self.watched.discard,
            ),
        )  # fmt: skip
        listener.ahead = Ahead(asyncio.get_running_loop())
        listener.admission = SimpleNamespace(opened=lambda _: None, closed=lambda _: None)
        listener.left = lambda exchange, **_: self.left.append(exchange)
        listener.refusal = self.pipeline.refusal
        self.connection = ConnectionOfTransport(listener)
        self.transport = Transport(self.connection, room)
        self.connection.asker = self.pipeline.client_keys.resolve("192.0.2.1")
        self.connection.connection_made(self.transport)

    @property
    def exchange(self):
        return self.pipeline.exchanges[-1]

    def send(self, data):
        for at in range(0, len(data), 16_384):
            piece = data[at : at + 16_384]
            BUFFER[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))

    async def until_all_ahead_is_served(self):
        async with asyncio.timeout(5):
            while self.connection.in_turn:  # noqa: ASYNC110  (it is the loop's turns that are waited for)
                await asyncio.sleep(0)

    def serve(self):
        """Let the homeserver have the request."""
        upstream = self.exchange.upstream = Upstream()
        return upstream

    def close(self):
        self.transport.abort()
        self.connection.connection_lost(None)
        self.transport.socket.close()
        self.transport.peer.close()
        self.pipeline.spool.close()
