import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The data path's player and the second readers are other tests' own.
TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "wire"), str(TESTS / "conformance")]
pytest.register_assert_rewrite("harness", "second_readers", "fuzz_play")

from world_fixtures import loop, world  # noqa: E402, F401  (found by the line above)

#: The same examples in every run, two minutes of them.
#: FUZZ_EXAMPLES=n and --timeout=0: as many new ones, drawn at random.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
settings.register_profile(
    "fuzz",
    max_examples=EXAMPLES or 3_300,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
