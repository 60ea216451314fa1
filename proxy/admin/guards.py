"""Who may use the admin listener: no web page of another site, and where a token is set only who has it.

A browser's cross-site request carries another `Origin`, or `Sec-Fetch-Site`; one whose Host is a name that somebody pointed
at this address (DNS rebinding) is refused by that name. Every error is JSON with `error` and `message`.
"""

import hmac
import ipaddress
import logging
from collections.abc import Callable
from typing import Final

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDictProxy

from proxy.addresses import Address

_SAME_SITE: Final = frozenset({"none", "same-origin"})
_HOME: Final = frozenset({"localhost"})
_ERRORS: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
}
_BEARER: Final = "bearer "

_log = structlog.get_logger(__name__)
#: aiohttp writes a traceback for each malformed request, which anyone may send; our own faults are in `_log`.
malformed = logging.getLogger("proxy.admin.malformed")
malformed.setLevel(logging.CRITICAL)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as JSON, a fault of ours without its details; nothing may be stored."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = error_response(error.status, error.reason)
        for name in (hdrs.ALLOW, hdrs.WWW_AUTHENTICATE):
            if name in error.headers:
                response.headers[name] = error.headers[name]
    except Exception:  # noqa: BLE001 -- logged whole; the next request must still be answered
        _log.exception("an operator's request failed", path=request.path)
        response = error_response(500, "Fairgate has a fault; its log tells more")
    if not response.prepared:
        response.headers[hdrs.CACHE_CONTROL] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def error_response(status: int, message: str) -> web.Response:
    """Give one error."""
    return web.json_response({"error": _ERRORS.get(status, "failed"), "message": message}, status=status)


def refuse_web_pages(listen: Address) -> Middleware:
    """Refuse what a browser sends for pages of other sites."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = request.headers
        if not _is_own_origin(headers) or headers.get("Sec-Fetch-Site", "none").lower() not in _SAME_SITE:
            raise web.HTTPForbidden(reason="not for web pages of other sites")
        # No browser reaches a Unix socket, and what clients send as Host there means nothing.
        if listen.path is None and not _is_own_host(headers.getall(hdrs.HOST, []), listen):
            raise web.HTTPForbidden(reason="Host must be an IP address, localhost or the configured host")
        return await handler(request)

    return middleware


def require_token(token: Callable[[], str | None]) -> Middleware:
    """Ask for `Authorization: Bearer` below `/v1/` where a token is set; compared in constant time."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        wanted = token()
        if wanted is not None and request.path.startswith("/v1/"):
            given = request.headers.getall(hdrs.AUTHORIZATION, [])
            field = given[0] if len(given) == 1 else ""
            secret = field[len(_BEARER) :].strip() if field.lower().startswith(_BEARER) else ""
            if not hmac.compare_digest(secret.encode(errors="surrogateescape"), wanted.encode()):
                raise web.HTTPUnauthorized(
                    reason="admin.token is set: send it as Authorization: Bearer",
                    headers={hdrs.WWW_AUTHENTICATE: 'Bearer realm="fairgate"'},
                )
        return await handler(request)

    return middleware


def _is_own_origin(headers: CIMultiDictProxy[str]) -> bool:
    """Tell whether no page asks, or one of ours: scripts that are modules, and POST, carry their own origin."""
    origins = headers.getall(hdrs.ORIGIN, [])
    return not origins or origins == [f"http://{headers.get(hdrs.HOST, '')}"]


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
