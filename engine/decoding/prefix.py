"""Prefix reuse: the tokens that two texts share, and the rest in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PREFILL_CHUNK = 512
"""Tokens prefilled between two checks for a cancelled request."""
PREFILL_PART = 64
"""The same while other requests wait; the compiled step is no slower with such chunks."""


def common_prefix(cached: list[int], wanted: list[int]) -> int:
    """Return the length of the common prefix of two texts' content keys (see ``Prompt``).

    All reuse of a state goes by this.
    """
    limit = min(len(cached), len(wanted))
    if cached[:limit] == wanted[:limit]:  # quick, and what a follow-up finds
        return limit
    for index in range(limit):
        if cached[index] != wanted[index]:
            return index
    return limit


def chunks(tokens: Sequence[int], *, beside_others: bool = False) -> Iterator[Sequence[int]]:
    """Yield ``tokens`` in chunks of ``PREFILL_CHUNK``, or of ``PREFILL_PART`` ``beside_others``."""
    size = PREFILL_PART if beside_others else PREFILL_CHUNK
    for start in range(0, len(tokens), size):
        yield tokens[start : start + size]
