import sys
from pathlib import Path

# The data path's player is the wire tests' own.
sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "wire")]
from world_fixtures import loop, world  # noqa: E402, F401  (found by the line above)
