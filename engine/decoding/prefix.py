"""Bringing a cache up to a new text: what it shares with the old one, and the rest in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PREFILL_CHUNK = 512
"""Tokens prefilled between two looks at the cancel switch."""


def common_prefix(cached: Sequence[int], wanted: Sequence[int]) -> int:
    """The number of leading tokens that are the same."""
    limit = min(len(cached), len(wanted))
    for index in range(limit):
        if cached[index] != wanted[index]:
            return index
    return limit


def chunks(tokens: Sequence[int]) -> Iterator[Sequence[int]]:
    """``tokens`` in runs of ``PREFILL_CHUNK``; the last may be shorter."""
    for start in range(0, len(tokens), PREFILL_CHUNK):
        yield tokens[start : start + PREFILL_CHUNK]
