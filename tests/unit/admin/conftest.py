import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path += [str(TESTS / "unit" / "observability"), str(TESTS / "wire")]  # `picture_support`, `harness`
