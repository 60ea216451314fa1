"""Which homeserver is it? Asked at start until it answers, since its profile sets the defaults (behaviour.md §8)."""

import asyncio

import aiohttp
import structlog

from proxy.addresses import parse_homeserver_url
from proxy.matrix.profiles import GENERIC, identify
from proxy.upstream.probe import new_session

#: Seconds between two attempts.
AGAIN_S = 2.0
_MAX_ANSWER_BYTES = 65_536

_log = structlog.get_logger("fairgate")


async def detect_profile(url: str) -> str:
    """Ask the homeserver at `url` what it is, every two seconds until it answers; give the name of its profile."""
    async with new_session(parse_homeserver_url(url)) as session:
        while True:
            name = await _ask(session, url)
            if name is not None:
                return _known(name)
            await asyncio.sleep(AGAIN_S)


def _known(name: str) -> str:
    if name == GENERIC:
        _log.warning(
            "unknown homeserver: using the conservative `generic` profile; set homeserver.profile if it behaves like another"
        )
    else:
        _log.info("the homeserver is known", profile=name)
    return name


async def _ask(session: aiohttp.ClientSession, url: str) -> str | None:
    try:
        version = await _get(session, url, "/_matrix/federation/v1/version")
        versions = await _get(session, url, "/_matrix/client/versions")
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None
    body = None if version is None else version[1]
    return identify(body, None if versions is None else versions[0])


async def _get(session: aiohttp.ClientSession, url: str, path: str) -> tuple[bytes, bytes] | None:
    """Give the Server field and the body of a 200, else None."""
    async with session.get(parse_homeserver_url(url).origin + path, allow_redirects=False) as response:
        if response.status != 200:
            return None
        return response.headers.get("Server", "").encode(), await response.content.read(_MAX_ANSWER_BYTES)
