"""Real sockets; the waits between two attempts are none."""

import asyncio
import contextlib

import pytest
from structlog.testing import capture_logs

from proxy.upstream import profile_detection
from proxy.upstream.profile_detection import detect_profile


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(profile_detection, "AGAIN_S", 0.0)
    monkeypatch.setattr(profile_detection, "WARN_AFTER_S", 0.0)


def detect(statuses, body=b'{"server": {"name": "Synapse"}}'):
    """Let a homeserver answer two questions with each of these statuses; give the profile and what was logged."""
    left = [status for status in statuses for _ in range(2)]

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (left.pop(0), len(body), body))
            await writer.drain()
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            with capture_logs() as lines:
                found = await detect_profile(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        return found, [line for line in lines if line["log_level"] == "warning"]

    return asyncio.run(run())


def test_who_says_what_it_is_at_once_is_not_complained_of():
    assert detect([200]) == ("synapse", [])


def test_what_answers_and_is_no_homeserver_is_told_once_a_minute_with_what_it_said():
    profile, lines = detect([404, 404, 404, 200])
    assert profile == "synapse"
    assert [line["cause"] for line in lines] == [
        "answered 404 at /_matrix/client/versions: is homeserver.url right?"
    ]
    assert lines[0]["homeserver"].startswith("http://127.0.0.1:")


def test_why_a_homeserver_cannot_be_asked_is_told():
    async def run():
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with capture_logs() as lines:
            asking = asyncio.create_task(detect_profile(f"http://127.0.0.1:{port}"))
            while not lines:  # noqa: ASYNC110 -- a line is no event
                await asyncio.sleep(0)
            asking.cancel()
        return lines

    (line,) = asyncio.run(run())
    assert "Connect call failed" in line["cause"]
