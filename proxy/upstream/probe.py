"""Does the homeserver answer? Asked for `/readyz`, apart from the pool, so that a full pool is not an outage.

However many ask, at most one request a second goes to the homeserver: askers share the one in flight, and its
result is good for `FRESH_S` more.
"""

import asyncio
from http import HTTPStatus

import aiohttp

from proxy import clock
from proxy.addresses import Address, parse_homeserver_url

PATH = "/_matrix/client/versions"
#: Seconds for the whole exchange; an orchestrator's own deadline is most often longer.
ANSWER_WITHIN_S = 2.0
#: Seconds a result is good for.
FRESH_S = 1.0


class HomeserverProbe:
    """Asks the homeserver at `url` (`http://host[:port]` or `unix:/path`); belongs to one event loop."""

    def __init__(self, url: str) -> None:
        address = parse_homeserver_url(url)
        self._address = address
        self._url = address.origin + PATH
        self._session: aiohttp.ClientSession | None = None
        self._asking: asyncio.Task[bool] | None = None
        self._result = False
        self._fresh_until = float("-inf")
        self._closed = False

    async def answers(self) -> bool:
        """Say whether it answered with a status under 500 within two seconds; False once closed."""
        if self._closed:
            return False
        if clock.now() < self._fresh_until:
            return self._result
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        # One asker that goes away must not end the request the others wait for.
        return await asyncio.shield(self._asking)

    async def close(self) -> None:
        """End what is in flight, its askers told False, and close the session."""
        self._closed = True
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        if self._session is not None:
            await self._session.close()

    async def _ask(self) -> bool:
        try:
            self._result = await self._status() < HTTPStatus.INTERNAL_SERVER_ERROR
        except (aiohttp.ClientError, TimeoutError, OSError):
            self._result = False
        except asyncio.CancelledError:
            # Only `close` has this task to cancel; who still waits for it is told, not cancelled.
            self._result = False
        finally:
            self._asking = None
        self._fresh_until = clock.now() + FRESH_S
        return self._result

    async def _status(self) -> int:
        if self._session is None:
            self._session = new_session(self._address)
        async with self._session.get(self._url, allow_redirects=False) as response:
            return response.status


def new_session(address: Address) -> aiohttp.ClientSession:
    """Make a session to the homeserver with a new connection for each question: a kept one tells of the past."""
    connector: aiohttp.BaseConnector
    if address.path is not None:
        connector = aiohttp.UnixConnector(path=address.path, force_close=True)
    else:
        connector = aiohttp.TCPConnector(force_close=True, use_dns_cache=False)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"User-Agent": "fairgate-probe"},
    )
