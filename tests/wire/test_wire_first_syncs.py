"""First syncs of one account wait for each other, those of others do not."""

import asyncio

from harness import OK, Answer, World, until

HELD = Answer(b"")
FIRST = b"GET /_matrix/client/v3/sync HTTP/1.1\r\nHost: a\r\n\r\n"


def test_a_second_first_sync_of_an_account_waits_for_the_first(loop):
    async def tell():
        world = World({"homeserver": {"profile": "synapse"}})
        await world.start()
        lines = []
        try:
            async with asyncio.timeout(20):
                script = world.homeserver.begin((HELD, Answer(OK)))
                lines += [await world.connect(), await world.connect()]
                rule = world.application.pipeline.first_syncs.rule
                for line in lines:
                    await line.send(FIRST)
                await until(lambda: rule.waiting == 1 and len(script.requests) == 1)
                world.homeserver.lines[0].transport.write(OK)
                for line in lines:
                    await line.until_received(OK)
                assert len(script.requests) == 2
                assert (rule.live, rule.waiting) == (0, 0)
        finally:
            for line in lines:
                line.transport.abort()
            await world.calm()
            await world.stop()
        assert world.faults == []

    loop.run_until_complete(tell())


def test_a_first_sync_whose_client_left_lets_the_next_begin_while_the_homeserver_goes_on(loop):
    async def tell():
        world = World({"homeserver": {"profile": "synapse"}})
        await world.start()
        lines = []
        try:
            async with asyncio.timeout(20):
                script = world.homeserver.begin((HELD, Answer(OK)))
                lines += [await world.connect(), await world.connect()]
                rule = world.application.pipeline.first_syncs.rule
                for line in lines:
                    await line.send(FIRST)
                await until(lambda: rule.waiting == 1 and len(script.requests) == 1)
                lines[0].reset()
                await lines[1].until_received(OK)
                assert len(script.requests) == 2
                world.homeserver.lines[0].transport.write(OK)
        finally:
            for line in lines:
                line.transport.abort()
            await world.calm()
            await world.stop()
        assert world.faults == []

    loop.run_until_complete(tell())
