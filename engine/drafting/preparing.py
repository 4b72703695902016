"""The prefill of a text in the proposer, which may wait until drafts pay for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

from engine.decoding.context import Context
from engine.decoding.proposer import Proposer
from engine.events import Prefilled


class Preparing:
    """Prefills a text in the proposer, some chunks at a time.

    ``left``: tokens that it had to prefill when last asked. ``finished``: whether nothing is to be done.
    """

    def __init__(self, proposer: Proposer, context: Context, prefilled: Prefilled) -> None:
        """``prefilled``: what the target took in, to which the proposer's time is added."""
        self._proposer, self._context = proposer, context
        self._chunks: Iterator[int] | None = None
        self.prefilled = prefilled
        self._update(next(proposer.prepare(context), None))

    def compute(self, chunks: int = 1) -> float:
        """Prefill the next chunks of the text as it was at the first call; return the seconds it took."""
        began = perf_counter()
        if self._chunks is None:
            self._chunks = self._proposer.prepare(self._context)
            self._update(next(self._chunks, None))  # it stops before the first chunk
        for _ in range(chunks):
            if not self.finished:
                self._update(next(self._chunks, None))
        took = perf_counter() - began
        self.prefilled = replace(self.prefilled, seconds=self.prefilled.seconds + took)
        return took

    def _update(self, left: int | None) -> None:
        self.left, self.finished = left or 0, left is None
