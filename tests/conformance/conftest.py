import sys
from pathlib import Path

import pytest
import uvloop

# The data path's player is the wire tests' own.
sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "wire")]
from harness import World  # noqa: E402  (found by the line above)


@pytest.fixture(scope="package")
def loop():
    loop = uvloop.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture(scope="package")
def world(loop):
    """Run one data path for all cases; each leaves it as it found it."""
    world = World()
    loop.run_until_complete(world.start())
    yield world
    loop.run_until_complete(world.stop())
