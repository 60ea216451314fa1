import asyncio
import contextlib

import pytest

from proxy import clock
from proxy.upstream.probe import HomeserverProbe


class Homeserver:
    """A real socket that counts questions and answers with a status, or not until told."""

    def __init__(self, status=200):
        self.status = status
        self.heads = []
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            self.asked.set()
            await self.may_answer.wait()
            writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: 2\r\n\r\n{{}}".encode())
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def probed(homeserver, path=None):
    if path:
        server, url = await asyncio.start_unix_server(homeserver.serve, path), f"unix:{path}"
    else:
        server = await asyncio.start_server(homeserver.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    probe = HomeserverProbe(url)
    try:
        yield probe
    finally:
        homeserver.may_answer.set()
        await probe.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("status", "answers"), [(200, True), (302, True), (404, True), (500, False), (503, False)]
)
def test_any_status_below_500_is_an_answer(status, answers):
    async def run():
        homeserver = Homeserver(status)
        async with probed(homeserver) as probe:
            assert await probe.answers() is answers
            assert homeserver.heads[0].startswith(b"GET /_matrix/client/versions HTTP/1.1\r\n")

    asyncio.run(run())


def test_a_unix_socket_is_asked_too(tmp_path):
    async def run():
        async with probed(Homeserver(), tmp_path / "h.sock") as probe:
            assert await probe.answers()

    asyncio.run(run())


def test_nobody_listening_is_no_answer(tmp_path):
    async def run():
        probe = HomeserverProbe(f"unix:{tmp_path}/none.sock")
        assert not await probe.answers()
        await probe.close()

    asyncio.run(run())


def test_many_who_ask_at_once_are_one_question_and_its_result_is_kept_a_second():
    async def run():
        homeserver = Homeserver()
        async with probed(homeserver) as probe:
            assert await asyncio.gather(*(probe.answers() for _ in range(20))) == [True] * 20
            assert await probe.answers()
            assert len(homeserver.heads) == 1
            assert probe._fresh_until <= clock.now() + 1
            probe._fresh_until = clock.now()
            assert await probe.answers()
            assert len(homeserver.heads) == 2

    asyncio.run(run())


def test_one_who_goes_away_does_not_end_the_question_of_the_others():
    async def run():
        homeserver = Homeserver()
        homeserver.may_answer.clear()
        async with probed(homeserver) as probe:
            impatient, patient = (asyncio.create_task(probe.answers()) for _ in range(2))
            await homeserver.asked.wait()
            impatient.cancel()
            await asyncio.wait([impatient])
            assert impatient.cancelled()
            homeserver.may_answer.set()
            assert await patient

    asyncio.run(run())


def test_closing_ends_a_question_in_flight_with_no():
    async def run():
        homeserver = Homeserver()
        homeserver.may_answer.clear()
        async with probed(homeserver) as probe:
            asker = asyncio.create_task(probe.answers())
            await homeserver.asked.wait()
            await probe.close()
            assert await asker is False
            assert await probe.answers() is False

    asyncio.run(run())


@pytest.mark.slow
def test_a_homeserver_that_hangs_does_not_answer_within_two_seconds():
    async def run():
        homeserver = Homeserver()
        homeserver.may_answer.clear()
        async with probed(homeserver) as probe:
            before = clock.now()
            assert not await probe.answers()
            assert 1.9 < clock.now() - before < 4

    asyncio.run(run())
