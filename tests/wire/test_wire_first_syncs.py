"""First syncs of one account wait for each other, those of others do not."""

import pytest
from harness import OK, Answer, until

HELD = Answer(b"")
FIRST = b"GET /_matrix/client/v3/sync HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def two_first_syncs(in_a_world):
    """Tell of a world where one first sync of a client is at the homeserver and its second waits."""

    def run(tell):
        async def whole(world):
            script = world.homeserver.begin((HELD, Answer(OK)))
            lines = [await world.connect(), await world.connect()]
            rule = world.application.pipeline.first_syncs.rule
            for line in lines:
                await line.send(FIRST)
            await until(lambda: rule.waiting == 1 and len(script.requests) == 1)
            await tell(world, lines)
            assert len(script.requests) == 2
            await until(lambda: (rule.live, rule.waiting) == (0, 0))
            for line in lines:
                line.transport.abort()

        in_a_world(whole, homeserver={"profile": "synapse"})

    return run


def test_a_second_first_sync_of_an_account_waits_for_the_first(two_first_syncs):
    async def tell(world, lines):
        world.homeserver.lines[0].transport.write(OK)
        for line in lines:
            await line.until_received(OK)

    two_first_syncs(tell)


def test_a_first_sync_whose_client_left_lets_the_next_begin_while_the_homeserver_goes_on(two_first_syncs):
    async def tell(world, lines):
        lines[0].reset()
        await lines[1].until_received(OK)
        world.homeserver.lines[0].transport.write(OK)

    two_first_syncs(tell)
