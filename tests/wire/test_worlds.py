"""What the other tests rely on: one data path on the loop of another leaves that one's watch for faults as it was."""

import asyncio

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

    loop.run_until_complete(tell())


def test_nor_does_a_world_go_blind_that_was_started_after_one_that_ends_before_it():
    async def tell():
        first, second = World(), World()
        await first.start()
        await second.start()
        await first.stop()
        try:
            await fault()
            assert len(second.faults) == 1
        finally:
            await second.stop()

    asyncio.run(tell())
