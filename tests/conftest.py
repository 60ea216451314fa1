import logging
import os
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # for `tools`, which is not installed

# The same examples in every run: a test that fails must fail again. Loading plugins slows the first example down.
settings.register_profile("fairgate", derandomize=True, deadline=None, max_examples=150)
settings.load_profile("fairgate")

#: Modules of support that assert: before any of them is imported, wherever that is.
pytest.register_assert_rewrite(
    "clients", "e2e_support", "faults_support", "harness", "second_readers", "splits"
)


def pytest_collection_modifyitems(items):
    if os.environ.get("TESTS") != "all":
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="long: TESTS=all runs it"))


@pytest.fixture(autouse=True)
def logs_as_they_were():
    """A test that configures logs, or reloads settings, leaves them to the next as they were."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
