import asyncio
import contextlib
import sys
from pathlib import Path

import pytest
import uvloop

HERE = Path(__file__).parent
for neighbour in ("e2e", "wire"):
    sys.path.insert(0, str(HERE.parent / neighbour))
from harness import World  # noqa: E402  (found by the line above)


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def in_a_world():
    """Give a function that runs `tell(world)` in the data path itself; nothing may be left, nor any task."""

    def run(tell, **settings):
        async def whole():
            world = World(settings)
            await world.start()
            try:
                async with asyncio.timeout(60):
                    with contextlib.ExitStack() as world.ends:
                        await tell(world)
                    await world.until_nothing_is_left()
                assert world.faults == []
            finally:
                await world.stop()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(whole())

    return run
