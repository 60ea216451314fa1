"""A homeserver that answers wrongly, breaks off or cannot be found; and what is left of all that: nothing."""

import asyncio
import contextlib
import json
import random
import re
import socket

import pytest
import uvloop
from clients import GET, answer_of, hints_of, post
from harness import OK, PATIENCE_S, Answer, World, refusal_in, until

HEAD = b"HTTP/1.1 200 OK\r\n"
#: Each way to be wrong, and whether its client may have seen the beginning of an answer.
WRONG = {
    "closes at once": (Answer(b"", then="close"), False),
    "resets": (Answer(b"", then="reset"), False),
    "answers while the request comes": (Answer(OK, after=b"T", then="close"), True),
    "garbage": (Answer(b"\x16\x03\x01\x00\xa5" * 40), False),
    "garbage and closes": (Answer(b"?" * 100, then="close"), False),
    "a status of no kind": (Answer(b"HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n"), False),
    "another version": (Answer(b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"), False),
    "half a head": (Answer(HEAD + b"Content-Le", then="close"), False),
    "half a head, reset": (Answer(HEAD + b"Content-Le", then="reset"), False),
    "a head without end": (Answer(HEAD + b"X: " + b"y" * 70_000), False),
    "interim answers without end": (Answer(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20), False),
    "a 101 nobody asked for": (Answer(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n"), False),
    "two lengths": (Answer(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nokk"), False),
    "half a body": (Answer(HEAD + b"Content-Length: 90\r\n\r\nhalf", then="close"), True),
    "half a body, reset": (Answer(HEAD + b"Content-Length: 90\r\n\r\nhalf", then="reset"), True),
    "a bad chunk": (Answer(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"), True),
    "half a chunk": (Answer(HEAD + b"Transfer-Encoding: chunked\r\n\r\n30\r\nabc", then="reset"), True),
    "bytes beyond its answer": (Answer(OK + OK), True),
}
RIGHT = (Answer(OK), Answer(answer_of(100_000)), Answer(OK, then="close"))


async def ask(line, request):
    """Give the answer to one request, and whether the connection ended with it."""
    line.received.clear()
    await line.send(request)

    def over():
        head, end, body = without_interim(line.received).partition(b"\r\n\r\n")
        if not end:
            return line.ended is not None
        length = re.search(rb"\r\nContent-Length: ([0-9]+)", head)
        return line.ended is not None or (length is not None and len(body) >= int(length[1]))

    await line.until(over)
    return without_interim(line.received)


def without_interim(received):
    data = bytes(received)
    while data.startswith(b"HTTP/1.1 1") and b"\r\n\r\n" in data:
        data = data.partition(b"\r\n\r\n")[2]
    return data


def kind(answer):
    status, reason = refusal_in(answer)
    hints_of(answer)
    assert status in (502, 504)
    return reason


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_ends_kindly_or_visibly_and_its_connection_is_never_used_again(in_a_world, name):
    wrong, may_have_begun = WRONG[name]

    async def tell(world):
        world.homeserver.begin((wrong, *[Answer(OK)] * 2))
        line = await world.connect()
        answer = await ask(line, GET)
        if not may_have_begun:
            assert kind(answer) in ("upstream_closed", "upstream_broken")
        else:
            assert line.ended is not None or answer == OK or kind(answer)
        other = await world.connect("127.0.0.2")
        assert await ask(other, GET) == OK
        assert world.homeserver.script.requests[-1].connection > 0 or answer == OK
        for each in (line, other):
            each.transport.abort()
        await world.calm()

    in_a_world(tell)


@pytest.mark.parametrize("seed", range(6))
def test_a_homeserver_wrong_in_every_way_by_turns_leaves_nothing_behind(in_a_world, seed):
    chance = random.Random(seed)
    answers = [
        chance.choice(list(WRONG.values()))[0] if chance.random() < 0.6 else chance.choice(RIGHT)
        for _ in range(600)
    ]

    async def tell(world):
        world.homeserver.begin(tuple(answers))
        tasks = len(asyncio.all_tasks())
        ends = {"served": 0, "refused": 0, "cut": 0}

        async def live(number):
            line = await world.connect(f"127.0.0.{number + 2}")
            for _ in range(25):
                if line.ended is not None or line.transport.is_closing():
                    line.transport.abort()
                    line = await world.connect(f"127.0.0.{number + 2}")
                request = chance.choice((GET, post(10), post(200_000)))
                answer = await ask(line, request)
                if b"\r\nFairgate-Reason: " in answer:
                    hints_of(answer[answer.rindex(b"HTTP/1.1 5") :])
                    ends["refused"] += 1
                elif answer == OK or answer == answer_of(100_000):
                    ends["served"] += 1
                else:
                    assert line.ended is not None
                    ends["cut"] += 1
            line.transport.abort()

        await asyncio.gather(*(live(number) for number in range(8)))
        assert min(ends.values()) > 5, ends
        await world.calm()
        world.homeserver.begin((Answer(OK),) * 8)
        line = await world.connect()
        assert [await ask(line, GET) for _ in range(8)] == [OK] * 8
        line.transport.abort()
        await world.calm()
        await until(lambda: len(asyncio.all_tasks()) <= tasks)

    in_a_world(tell)


class NamesLoop(uvloop.Loop):
    """A loop that finds a name as the test says: None while no resolver answers, else the names there are."""

    names = None

    async def create_connection(self, factory, host=None, port=None, **kwargs):
        if host == "homeserver.test":
            if self.names is None:
                await asyncio.Event().wait()
            if host not in self.names:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            host = self.names[host]
        return await super().create_connection(factory, host, port, **kwargs)


def test_without_a_name_the_refusal_is_kind_and_the_name_is_looked_for_with_each_request():
    async def whole(loop):
        world = World({"homeserver": {"connect_timeout_seconds": 0.05}})
        await world.start()
        world.application.pool._address = ("homeserver.test", world.application.pool._address[1])
        try:
            async with asyncio.timeout(PATIENCE_S):
                world.homeserver.begin((Answer(OK),) * 2)
                line = await world.connect()
                assert kind(await ask(line, GET)) == "connect_timeout"
                loop.names = {}
                assert kind(await ask(line, GET)) == "upstream_unreachable"
                assert world.application.pool.failing_since is not None
                loop.names = {"homeserver.test": "127.0.0.1"}
                assert await ask(line, GET) == OK
                assert world.application.pool.failing_since is None
                line.transport.abort()
                await world.calm()
        finally:
            await world.stop()

    with asyncio.Runner(loop_factory=NamesLoop) as runner:
        runner.run(whole(runner.get_loop()))


def test_while_it_is_away_for_long_clients_are_told_to_come_back_later_and_at_different_times(in_a_world):
    async def tell(world):
        await world.homeserver.stop()
        line = await world.connect()
        hints = []
        for outage_s in (0, 0, 0, 60, 60, 60):
            pool = world.application.pool
            if outage_s:
                pool.failing_since = asyncio.get_running_loop().time() - outage_s
            answer = await ask(line, GET)
            hints.append(json.loads(answer.partition(b"\r\n\r\n")[2])["retry_after_ms"])
        line.transport.abort()
        assert max(hints[:3]) <= 7_500 < min(hints[3:]) <= max(hints[3:]) <= 45_000
        assert len(set(hints)) == len(hints)
        with contextlib.suppress(AttributeError):
            await until(lambda: not len(world.application.listener.connections))

    in_a_world(tell)
