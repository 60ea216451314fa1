"""What the other tests rely on: one data path on the loop of another blinds nobody for faults."""

import asyncio

import harness
import pytest
from harness import World, turn


async def nothing(_):
    pass


async def fault():
    def fail():
        raise ValueError("a fault of ours")

    asyncio.get_running_loop().call_soon(fail)
    await turn()


def test_a_fault_after_a_world_of_its_own_is_seen_by_the_one_that_all_share(loop, world, in_a_world):
    in_a_world(nothing)

    async def tell():
        await fault()
        with pytest.raises(AssertionError, match="a fault of ours"):
            await world.calm()

    try:
        loop.run_until_complete(tell())
    finally:
        for _, other in harness._running:
            other.faults.clear()  # this one was on purpose


def test_worlds_on_one_loop_see_every_fault_while_they_run_whichever_was_started_first():
    async def tell():
        first, second, third = World(), World(), World()
        for world in (first, second, third):
            await world.start()
        await second.stop()
        try:
            await fault()
            assert [len(world.faults) for world in (first, second, third)] == [1, 0, 1]
        finally:
            await first.stop()
            await third.stop()

    asyncio.run(tell())
