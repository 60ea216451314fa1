"""Patterns of operators: `*` is any run of characters, `?` any one, nothing else is special; the whole value must match. Pure.

All patterns of a list become one expression that never goes back over a `*`: a long value costs its length, not a power of it.
"""

import re
from collections.abc import Iterable


def compile_globs(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """Give one expression for all patterns, for `fullmatch`; None if there are none."""
    alternatives = [_translated(pattern) for pattern in patterns]
    return re.compile("|".join(alternatives), re.DOTALL) if alternatives else None


def _translated(pattern: str) -> str:
    first, *rest = [re.escape(part).replace(r"\?", ".") for part in pattern.split("*")]
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + ".*" + last
