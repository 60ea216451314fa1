"""Which homeserver is it? Asked at start until it answers, since its profile sets the defaults (behaviour.md §8)."""

import asyncio
from http import HTTPStatus
from typing import Final, NamedTuple

import aiohttp
import structlog

from proxy import clock
from proxy.addresses import parse_homeserver_url
from proxy.matrix.profiles import GENERIC, identify
from proxy.upstream.probe import ANSWER_WITHIN_S, PATH, new_session

#: Seconds between two attempts.
AGAIN_S = 2.0
#: Seconds without success after which the log says why, and then between two such lines.
WARN_AFTER_S = 10.0
WARN_EVERY_S = 60.0
_MAX_ANSWER_BYTES = 65_536
_VERSION: Final = "/_matrix/federation/v1/version"

_log = structlog.get_logger("fairgate")


async def detect_profile(url: str) -> str:
    """Ask the homeserver at `url` what it is, every two seconds until it answers; give the name of its profile."""
    began_at = clock.now()
    warn_at = began_at + WARN_AFTER_S
    async with new_session(parse_homeserver_url(url)) as session:
        while True:
            name, problem = await _ask(session, url)
            if name is not None:
                return _known(name)
            now = clock.now()
            if now >= warn_at:
                warn_at = now + WARN_EVERY_S
                _log.warning(
                    "the homeserver has not said what it is: the careful figures hold, /readyz is 503",
                    homeserver=url,
                    cause=problem,
                    for_seconds=round(now - began_at, 1),
                )
            await asyncio.sleep(AGAIN_S)


def _known(name: str) -> str:
    if name == GENERIC:
        _log.warning(
            "the homeserver is none that is known: the careful figures of the profile `generic` hold; "
            "set homeserver.profile if it is like another"
        )
    else:
        _log.info("the homeserver is known", profile=name)
    return name


class _Answer(NamedTuple):
    """What came of one question; `server` is the Server field."""

    status: int
    server: bytes
    body: bytes


async def _ask(session: aiohttp.ClientSession, url: str) -> tuple[str | None, str]:
    """Give the profile's name, or None and why there is none."""
    try:
        version = await _get(session, url, _VERSION)
        versions = await _get(session, url, PATH)
    except TimeoutError:
        return None, f"no answer within {ANSWER_WITHIN_S:g} s"
    except (aiohttp.ClientError, OSError) as error:
        return None, str(error) or type(error).__name__
    body = version.body if version.status == HTTPStatus.OK else None
    name = identify(body, versions.server if versions.status == HTTPStatus.OK else None)
    return name, f"answered {versions.status} at {PATH}: is homeserver.url right?"


async def _get(session: aiohttp.ClientSession, url: str, path: str) -> _Answer:
    async with session.get(parse_homeserver_url(url).origin + path, allow_redirects=False) as response:
        body = await response.content.read(_MAX_ANSWER_BYTES)
        return _Answer(response.status, response.headers.get("Server", "").encode(), body)
