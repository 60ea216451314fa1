"""Clients that come and go in every way leave nothing in memory: no object, no block, no task, no timer."""

import asyncio
import gc
import random
import sys

from clients import get, post, whoami_of
from harness import OK, Answer, turn

ROUND = 300
MOST_BLOCKS_EACH = 0.5  # of pymalloc, a client; a leaked object of any kind is one at least
ACCOUNTS = {b"token%d" % number: f"@u{number}:a" for number in range(20)}


async def one_client(world, chance):
    """Come from one of few addresses with one of few tokens, say something, and leave in some way."""
    line = await world.connect(f"127.0.0.{chance.randrange(2, 40)}")
    token = b"token%d" % chance.randrange(25)  # some are nobody's
    poll = b"/_matrix/client/v3/sync?since=1&timeout=30000"
    said = chance.choice(
        (
            get(token=token),
            get(token=token) * 5,
            get(poll, token=token),
            post(100),
            post(300_000),
            get(token=token)[:-5],
            post(300_000)[:150_000],
            b"\x00nonsense\r\n\r\n",
            b"",
        )
    )
    await line.send(said)
    for _ in range(chance.randrange(30)):
        await turn()
    if chance.random() < 0.5:
        line.reset()
    else:
        line.transport.close()
    await line.until(lambda: line.transport.is_closing() and line.ended is not None)


async def a_round(world, chance):
    world.homeserver.begin((Answer(OK),) * (ROUND * 6))
    world.homeserver.script.whoami = whoami_of(ACCOUNTS)
    for _ in range(ROUND // 10):
        await asyncio.gather(*(one_client(world, chance) for _ in range(10)))
    await world.calm()
    world.homeserver.begin(())
    for _ in range(3):
        gc.collect()
    return sys.getallocatedblocks(), len(gc.get_objects()), len(asyncio.all_tasks())


def test_after_more_rounds_of_churn_there_is_no_more_than_after_a_few(in_a_world):
    async def tell(world):
        chance = random.Random(9)
        for _ in range(3):
            before = await a_round(world, chance)
        rounds = 5
        for _ in range(rounds):
            after = await a_round(world, chance)
        assert (after[0] - before[0]) / (rounds * ROUND) < MOST_BLOCKS_EACH
        assert after[1] - before[1] < rounds * ROUND / 20
        assert after[2] == before[2]

    in_a_world(tell)
