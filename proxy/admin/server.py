"""The two listeners for operators, on aiohttp; nothing here touches the path of clients' requests.

`metrics`: `/healthz` (the process runs), `/servez` (we serve, whether or not the homeserver answers just now), `/readyz` (it
answers, we know what it is, and are not stopping), `/metrics`: nothing about a person. `admin`: what `api.py` lists, behind
`guards.py`.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy import unix_listener
from proxy.addresses import Address, parse_listen_address
from proxy.admin.api import admin_application
from proxy.admin.connections import Connections, Limits, OperatorStatistics
from proxy.admin.guards import errors_as_json, malformed
from proxy.admin.history import EVERY_S
from proxy.admin.settings import AdminSettings, MetricsSettings
from proxy.admin.views import Views
from proxy.observability.metrics import SnapshotCollector
from proxy.observability.snapshot import Snapshot

#: Seconds requests in flight get at a stop.
_STOP_WITHIN_S: Final = 0.5
#: Newcomers are accepted at once; who finds a burst of more in front comes again a second later, by the kernel's clock.
_BACKLOG: Final = 1024
_YEAR_2001: Final = 1e9  # in seconds since the epoch
_LIMITS: Final = Limits()


class OperatorListeners:
    """Both listeners; the views are asked for each request, `why_not_ready` for each `/readyz`: None if it is.

    `not_serving` is asked for each `/servez`: why no client should be sent here, or None.
    """

    def __init__(
        self,
        admin: AdminSettings,
        metrics: MetricsSettings,
        views: Views,
        why_not_ready: Callable[[], Awaitable[str | None]],
        not_serving: Callable[[], str | None],
        limits: Limits = _LIMITS,
    ) -> None:
        self.configure(admin)
        self._views = views
        self._sampling: asyncio.Task[None] | None = None
        address = parse_listen_address(admin.listen)
        self._admin = _Listener(address, admin_application(address, views, lambda: self._token), limits)
        self._metrics = _Listener(
            parse_listen_address(metrics.listen),
            _metrics_application(views.snapshot, why_not_ready, not_serving),
            limits,
        )

    def configure(self, admin: AdminSettings) -> None:
        """Take settings, at start and whenever they change; where it listens stays."""
        self._token = admin.token

    @property
    def admin_address(self) -> str:
        """Where the admin listener is, with the port the kernel gave once started."""
        return str(self._admin.address)

    @property
    def metrics_address(self) -> str:
        """Where the metrics listener is, with the port the kernel gave once started."""
        return str(self._metrics.address)

    def statistics(self) -> dict[str, OperatorStatistics]:
        """Give the figures of both by name."""
        return {
            "admin": self._admin.connections.statistics(),
            "metrics": self._metrics.connections.statistics(),
        }

    async def start(self, admin: Sequence[socket.socket] = (), metrics: Sequence[socket.socket] = ()) -> None:
        """Open both or neither, at sockets handed over for them. Raises OSError where a place is taken or not ours to take."""
        try:
            await self._admin.start(admin)
            await self._metrics.start(metrics)
        except BaseException:
            await self.stop()
            raise
        self._sampling = asyncio.create_task(self._sample())

    def let_go(self) -> None:
        """Accept nothing more at sockets that were handed over: they are another process's now."""
        self._admin.let_go()
        self._metrics.let_go()

    async def stop(self) -> None:
        """Close both; may be called again, and without a start."""
        if self._sampling is not None:
            self._sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampling
            self._sampling = None
        await self._admin.stop()
        await self._metrics.stop()

    async def _sample(self) -> None:
        while True:
            self._views.sample()
            await asyncio.sleep(EVERY_S)


class _Listener:
    """One application at one address."""

    def __init__(self, address: Address, application: web.Application, limits: Limits) -> None:
        self.address = address
        self.connections = Connections(application, limits)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=malformed,
            keepalive_timeout=limits.idle_s,
            lingering_time=limits.body_s,
            shutdown_timeout=_STOP_WITHIN_S,
        )
        self._server: asyncio.Server | None = None
        self._handed_over: list[asyncio.Server] = []

    async def start(self, handed_over: Sequence[socket.socket]) -> None:
        await self._runner.setup()
        protocols = self.connections.protocols(cast(web.Server, self._runner.server))
        for listening in handed_over:
            self._handed_over.append(await self._serve(protocols, listening))
        if handed_over:
            return
        self._server = server = await self._listen(protocols)
        if self.address.path is None:
            self.address = replace(self.address, port=server.sockets[0].getsockname()[1])

    async def _serve(
        self, protocols: Callable[[], asyncio.Protocol], listening: socket.socket
    ) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if self.address.path is not None:
            return await unix_listener.listen(protocols, listening, _BACKLOG)
        return await loop.create_server(protocols, sock=listening, backlog=_BACKLOG)

    async def _listen(self, protocols: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        loop, address = asyncio.get_running_loop(), self.address
        if address.path is not None:
            return await unix_listener.listen(protocols, address.path, _BACKLOG)
        return await loop.create_server(protocols, address.host, address.port or 0, backlog=_BACKLOG)

    def let_go(self) -> None:
        for server in self._handed_over:
            server.close()
        self._handed_over.clear()

    async def stop(self) -> None:
        self.let_go()
        if self._server is not None:
            self._remove_path()  # before it is closed: afterwards another process may have it
            self._server.close()
            self._server = None
        await self._runner.cleanup()
        self.connections.close()

    def _remove_path(self) -> None:
        if self.address.path is not None:
            Path(self.address.path).unlink(missing_ok=True)


class _Process(Collector):
    """Memory, CPU and descriptors by the names that every Prometheus client gives them."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield them; where /proc/stat is hidden (`ProcSubset=pid` of the unit), when it started is not known and not told."""
        for metric in self._collector.collect():
            if not (metric.name == "process_start_time_seconds" and metric.samples[0].value < _YEAR_2001):
                yield metric


def _metrics_application(
    snapshot: Callable[[], Snapshot],
    why_not_ready: Callable[[], Awaitable[str | None]],
    not_serving: Callable[[], str | None],
) -> web.Application:
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(snapshot))
    registry.register(_Process())

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def servez(_: web.Request) -> web.Response:
        why_not = not_serving()
        return web.Response(text="ok\n") if why_not is None else web.Response(status=503, text=f"{why_not}\n")

    async def readyz(_: web.Request) -> web.Response:
        if snapshot().stopping:
            return web.Response(status=503, text="stopping\n")
        why_not = await why_not_ready()
        if why_not is not None:
            return web.Response(status=503, text=f"{why_not}\n")
        return web.Response(text="ok\n")

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=encode(registry), headers={hdrs.CONTENT_TYPE: content_type})

    application = web.Application(middlewares=[errors_as_json])
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/servez", servez)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", metrics)
    return application
