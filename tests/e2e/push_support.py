"""Push gateways of every kind, and the way out in a thread of its own, for a real Synapse to deliver through."""

import asyncio
import contextlib
import json
import re
import ssl
import threading
import time
from pathlib import Path

import uvloop

from proxy import clock
from proxy.egress.egress import Egress
from proxy.egress.settings import EgressSettings

TLS = Path(__file__).parents[1] / "unit" / "egress" / "tls"
CA = TLS / "ca.pem"
TIMEOUT_S = 6
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3

#: Synapse waits 60 s for a gateway, which is written in its source and nowhere else: `TIMEOUT_S` here, and nothing else.
SHORT_TIMEOUT = """
import synapse.util.async_helpers as helpers

waiting = helpers.timeout_deferred

def timeout_deferred(*arguments, **named):
    if named.get("timeout") == 60:
        named["timeout"] = %d
    return waiting(*arguments, **named)

helpers.timeout_deferred = timeout_deferred
"""


def short_timeout(folder):
    """The environment in which Synapse gives a delivery up after `TIMEOUT_S`, and trusts the test's CA."""
    (folder / "sitecustomize.py").write_text(SHORT_TIMEOUT % TIMEOUT_S)
    return {"PYTHONPATH": str(folder), "SSL_CERT_FILE": str(CA)}


class Gateway:
    """One host; `mode` says what it does with a request: works, fails (500), stalls, or trickles a part of an answer."""

    def __init__(self, name, mode, version=None):
        self.name = name
        self.mode = mode
        self.version = version
        self.arrived = {}  # event id: when
        self.timeouts = []  # when a request that got no answer was given up after (nearly) the whole timeout
        self.answered = 0
        self.port = 0
        self.server = None
        self.open = set()

    @property
    def url(self):
        scheme = "http" if self.version is None else "https"
        return f"{scheme}://{self.name}:{self.port}/_matrix/push/v1/notify"

    @property
    def key(self):
        return self.url.removesuffix("/_matrix/push/v1/notify")

    async def start(self):
        context = None
        if self.version is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / "leaf.pem", TLS / "leaf.key")
            context.minimum_version = context.maximum_version = self.version
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer):
        self.open.add(writer)
        began_at = None
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = await self._read_head(reader, began_at)
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b"{}"
                event = json.loads(body).get("notification", {}).get("event_id")
                began_at = time.monotonic()
                if self.mode == "works":
                    self.arrived.setdefault(event, time.monotonic())
                    self._answer(writer, b"200 OK")
                elif self.mode == "fails":
                    self._answer(writer, b"500 Internal Server Error")
                elif self.mode == "trickles":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-")
        self.open.discard(writer)
        writer.close()

    async def _read_head(self, reader, began_at):
        try:
            return await reader.readuntil(b"\r\n\r\n")
        finally:
            if (
                began_at
                and self.mode in ("stalls", "trickles")
                and time.monotonic() - began_at > TIMEOUT_S - 1
            ):
                self.timeouts.append(time.monotonic())

    def _answer(self, writer, status):
        self.answered += 1
        body = b'{"rejected":[],"displayname":"far away"}'
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (status, len(body), body)
        )


class WayOut:
    """The egress of this process, as an application would run it; names are what `lookup` says."""

    def __init__(self, lookup, gateways, **settings):
        self._lookup = lookup
        self._gateways = gateways
        self._settings = EgressSettings(listen={"address": "127.0.0.1:0"}, allow=("127.0.0.0/8",), **settings)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()))
        self.faults = []

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()
        assert not self.faults, self.faults

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self.faults.append(context))
        self._stop = asyncio.Event()
        self.egress = Egress(self._settings, self._loop, clock.now, lookup=self._lookup)
        for gateway in self._gateways:
            if gateway.mode != "is not there":
                await gateway.start()
        await self.egress.start()
        self.url = f"http://{self.egress.address}"
        self._ready.set()
        await self._stop.wait()
        await self.egress.stop()
        for gateway in self._gateways:
            if gateway.server is not None:
                gateway.server.close()
                for writer in list(gateway.open):
                    writer.transport.abort()
        await asyncio.sleep(0.05)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def ask(self, what):
        """Call `what(egress)` in the loop's thread."""

        async def call():
            return what(self.egress)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)

    @property
    def failing(self):
        """The gateways with failures in a row: {gateway: (state, failures)}."""
        statistics = self.ask(lambda egress: egress.statistics())
        return {one.gateway: (one.state, one.failures) for one in statistics.failing}
