"""The admin listener's paths: `/v1/status`, `flows`, `explain`, `reload`, `events` (server-sent), and the page at `/`."""

import asyncio
import json
from collections.abc import Callable
from importlib.resources import files
from typing import Final

from aiohttp import hdrs, web

from proxy.addresses import Address
from proxy.admin.explain import Asked, fields_of
from proxy.admin.flows import MOST, ORDERS
from proxy.admin.guards import error_response, errors_as_json, refuse_web_pages, require_token
from proxy.admin.views import Views, findings_document, reloaded_document
from proxy.observability.logs import redact_target

_EVERY_S: Final = 1.0
#: Pages that are open at once; each costs a status a second.
_MAX_STREAMS: Final = 16
_PAGE_FILES: Final = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/plots.js": ("plots.js", "text/javascript"),
}
#: Nothing but our own files, in no frame, and no inline script.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def admin_application(listen: Address, views: Views, token: Callable[[], str | None]) -> web.Application:
    """Make the application of the admin listener."""
    api = _Api(views)
    application = web.Application(
        middlewares=[errors_as_json, refuse_web_pages(listen), require_token(token)],
        client_max_size=65_536,
    )
    application.router.add_get("/v1/status", api.status)
    application.router.add_get("/v1/flows", api.flows)
    application.router.add_get("/v1/explain", api.explain)
    application.router.add_post("/v1/reload", api.reload)
    application.router.add_get("/v1/events", api.events)
    application.on_shutdown.append(api.close)
    for path in _PAGE_FILES:
        application.router.add_get(path, _page_file)
    return application


class _Api:
    """The answers."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._streams: set[asyncio.Task[None]] = set()

    async def status(self, _: web.Request) -> web.Response:
        return web.json_response(self._views.status())

    async def flows(self, request: web.Request) -> web.Response:
        by = request.query.get("by", "worker_seconds")
        top = request.query.get("top", "20")
        if by not in ORDERS:
            return error_response(400, f"by must be one of {', '.join(ORDERS)}")
        if not top.isascii() or not top.isdigit() or not 1 <= int(top[:9]) <= MOST:
            return error_response(400, f"top must be a whole number from 1 to {MOST}")
        return web.json_response({"by": by, "flows": self._views.flows(by, int(top))})

    async def explain(self, request: web.Request) -> web.Response:
        query = request.query
        target = query.get("target", "")
        if not target.startswith("/"):
            return error_response(400, "target must be a path, with its query if it has one")
        try:
            fields = fields_of(query.getall("header", []))
        except ValueError as error:
            return error_response(400, str(error))
        method = query.get("method", "GET").upper()
        asked = Asked(method, target, query.get("account") or None, fields)
        findings = findings_document(self._views.explain(asked))
        return web.json_response(
            {"method": method, "target": redact_target(target.encode()), "findings": findings}
        )

    async def reload(self, _: web.Request) -> web.Response:
        reloaded = self._views.reload()
        return web.json_response(reloaded_document(reloaded), status=422 if reloaded.mistakes else 200)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send the history once, then a picture a second, until the page is closed."""
        if len(self._streams) >= _MAX_STREAMS:
            return error_response(503, f"{_MAX_STREAMS} pages are open already")
        response = web.StreamResponse(
            headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"}
        )
        stream = asyncio.create_task(self._send(request, response))
        self._streams.add(stream)
        try:
            await stream
        except ConnectionError:
            pass  # the page is closed
        except asyncio.CancelledError:
            if not stream.cancelled():
                stream.cancel()
                raise
        finally:
            self._streams.discard(stream)
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse) -> None:
        await response.prepare(request)
        await response.write(_event("history", self._views.history.document()))
        while True:
            await response.write(_event("picture", self._views.picture()))
            await asyncio.sleep(_EVERY_S)

    async def close(self, _: web.Application) -> None:
        """End every stream: pages come back by themselves."""
        for stream in list(self._streams):
            stream.cancel()


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


async def _page_file(request: web.Request) -> web.Response:
    name, content_type = _PAGE_FILES[request.path]
    body = files("proxy.admin").joinpath("page", name).read_bytes()
    return web.Response(
        body=body, content_type=content_type, charset="utf-8", headers={"Content-Security-Policy": _POLICY}
    )
