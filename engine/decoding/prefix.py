"""Bringing a cache up to a new text: what it shares with the old one, and the rest in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PREFILL_CHUNK = 512
"""Tokens prefilled between two looks at the cancel switch."""
PREFILL_PART = 64
"""The same where others may wait: of one pass of the compiled step, which is no slower so."""


def common_prefix(cached: Sequence[int], wanted: Sequence[int]) -> int:
    """The number of leading tokens that are the same."""
    limit = min(len(cached), len(wanted))
    for index in range(limit):
        if cached[index] != wanted[index]:
            return index
    return limit


def chunks(tokens: Sequence[int], *, beside_others: bool = False) -> Iterator[Sequence[int]]:
    """``tokens`` in runs of ``PREFILL_CHUNK``, or ``PREFILL_PART``; the last may be shorter."""
    size = PREFILL_PART if beside_others else PREFILL_CHUNK
    for start in range(0, len(tokens), size):
        yield tokens[start : start + size]
