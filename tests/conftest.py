import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # for `tools`, which is not installed

#: Modules of support that assert: before any of them is imported, wherever that is.
pytest.register_assert_rewrite(
    "clients", "e2e_support", "faults_support", "harness", "second_readers", "splits"
)
