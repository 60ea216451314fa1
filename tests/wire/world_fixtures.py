"""One event loop, and data paths on it, for all tests of a folder: its conftest imports what they need."""

import asyncio
import contextlib

import pytest
import uvloop
from harness import World


@pytest.fixture(scope="package")
def loop():
    loop = uvloop.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture(scope="package")
def world(loop):
    """Run one data path for all; each test leaves it as it found it."""
    world = World()
    loop.run_until_complete(world.start())
    yield world
    loop.run_until_complete(world.stop())


@pytest.fixture
def in_a_world(loop):
    """Give a function that runs `tell(world)` with a data path of its own settings; `world.ends` end with it."""

    def run(tell, *, homeserver_port=None, **settings):
        async def whole():
            world = World(settings)
            await world.start(homeserver_port)
            try:
                async with asyncio.timeout(30):
                    with contextlib.ExitStack() as world.ends:
                        await tell(world)
                assert world.faults == []
            finally:
                await world.stop()

        loop.run_until_complete(whole())

    return run
