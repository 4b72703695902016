"""How much of a cached sequence a new one shares."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(cached: Sequence[int], wanted: Sequence[int]) -> int:
    """The number of leading tokens that are the same."""
    limit = min(len(cached), len(wanted))
    for index in range(limit):
        if cached[index] != wanted[index]:
            return index
    return limit
