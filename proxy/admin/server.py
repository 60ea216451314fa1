"""The two listeners for operators, on aiohttp; nothing here touches the path of clients' requests.

`metrics`: `/healthz` (the process runs), `/readyz` (the homeserver answers and we are not stopping),
`/metrics`. `admin`: `/v1/status`, refused to web pages: a browser's cross-site request, and one whose Host is
a name that somebody pointed at this address (DNS rebinding). Every error is JSON with `error` and `message`.
"""

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from proxy.addresses import Address, parse_listen_address
from proxy.observability.metrics import SnapshotCollector
from proxy.observability.snapshot import Snapshot
from proxy.observability.status import status_document

#: Seconds requests in flight get at a stop.
_STOP_WITHIN_S = 0.5  # for requests to the operators' listeners that are under way
#: Seconds an idle connection is kept: longer than the usual scrape interval.
_IDLE_S = 75.0
_SAME_SITE = frozenset({"none", "same-origin"})
_HOME = frozenset({"localhost"})

_log = structlog.get_logger(__name__)
#: aiohttp writes a traceback for each malformed request, which anyone may send; our own faults are in `_log`.
_malformed = logging.getLogger("proxy.admin.malformed")
_malformed.setLevel(logging.CRITICAL)


class OperatorListeners:
    """Both listeners; `snapshot` is called for each status and scrape, the other for each `/readyz`."""

    def __init__(
        self,
        admin_listen: str,
        metrics_listen: str,
        snapshot: Callable[[], Snapshot],
        homeserver_answers: Callable[[], Awaitable[bool]],
    ) -> None:
        admin_at = parse_listen_address(admin_listen)
        self._admin = _Listener(admin_at, _admin_application(admin_at, snapshot))
        self._metrics = _Listener(
            parse_listen_address(metrics_listen), _metrics_application(snapshot, homeserver_answers)
        )

    @property
    def admin_address(self) -> str:
        """Where the admin listener is, with the port the kernel gave once started."""
        return str(self._admin.address)

    @property
    def metrics_address(self) -> str:
        """Where the metrics listener is, with the port the kernel gave once started."""
        return str(self._metrics.address)

    async def start(self) -> None:
        """Open both or neither. Raises OSError where a place is taken or not ours to take."""
        try:
            await self._admin.start()
            await self._metrics.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close both; may be called again, and without a start."""
        await self._admin.stop()
        await self._metrics.stop()


class _Listener:
    """One application at one address."""

    def __init__(self, address: Address, application: web.Application) -> None:
        self.address = address
        self._application = application
        self._runner: web.AppRunner | None = None
        self._is_open = False

    async def start(self) -> None:
        self._runner = web.AppRunner(
            self._application,
            access_log=None,
            logger=_malformed,
            keepalive_timeout=_IDLE_S,
            shutdown_timeout=_STOP_WITHIN_S,
        )
        await self._runner.setup()
        await self._site(self._runner).start()
        self._is_open = True
        if self.address.path is None:
            self.address = replace(self.address, port=self._runner.addresses[0][1])

    def _site(self, runner: web.AppRunner) -> web.BaseSite:
        if self.address.path is not None:
            return web.UnixSite(runner, self.address.path)
        return web.TCPSite(runner, self.address.host, self.address.port)

    async def stop(self) -> None:
        if self._runner is None:
            return
        await self._runner.cleanup()
        self._runner = None
        if self._is_open and self.address.path is not None:
            with contextlib.suppress(FileNotFoundError):
                await asyncio.to_thread(Path(self.address.path).unlink)
        self._is_open = False


def _admin_application(listen: Address, snapshot: Callable[[], Snapshot]) -> web.Application:
    async def status(_: web.Request) -> web.Response:
        return web.json_response(status_document(snapshot()))

    application = web.Application(middlewares=[_errors_as_json, _refuse_web_pages(listen)])
    application.router.add_get("/v1/status", status)
    return application


def _metrics_application(
    snapshot: Callable[[], Snapshot], homeserver_answers: Callable[[], Awaitable[bool]]
) -> web.Application:
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(snapshot))

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if snapshot().stopping:
            return web.Response(status=503, text="stopping\n")
        if not await homeserver_answers():
            return web.Response(status=503, text="the homeserver does not answer\n")
        return web.Response(text="ok\n")

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=encode(registry), headers={hdrs.CONTENT_TYPE: content_type})

    application = web.Application(middlewares=[_errors_as_json])
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", metrics)
    return application


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = _error(error.status, error.reason)
        if hdrs.ALLOW in error.headers:
            response.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
    except Exception:  # noqa: BLE001 -- logged whole; the next request must still be answered
        _log.exception("an operator's request failed", path=request.path)
        response = _error(500, "Fairgate has a fault; its log tells more")
    response.headers[hdrs.CACHE_CONTROL] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _error(status: int, message: str) -> web.Response:
    name = {403: "forbidden", 404: "not_found", 405: "method_not_allowed"}.get(status, "failed")
    return web.json_response({"error": name, "message": message}, status=status)


def _refuse_web_pages(listen: Address) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        if hdrs.ORIGIN in headers or headers.get("Sec-Fetch-Site", "none").lower() not in _SAME_SITE:
            raise web.HTTPForbidden(reason="not for web pages of other sites")
        # No browser reaches a Unix socket, and what clients send as Host there means nothing.
        if listen.path is None and not _is_own_host(headers.getall(hdrs.HOST, []), listen):
            raise web.HTTPForbidden(reason="Host must be an IP address, localhost or the configured host")
        return await handler(request)

    return middleware


def _is_own_host(fields: list[str], listen: Address) -> bool:
    if len(fields) != 1:
        return False
    host = _without_port(fields[0].strip())
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.lower() in _HOME or host.lower() == (listen.host or "").lower()
    return True


def _without_port(field: str) -> str:
    if field.startswith("["):
        return field[1:].partition("]")[0]
    return field.rpartition(":")[0] if field.count(":") == 1 else field
