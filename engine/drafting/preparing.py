"""The prefill of a prompt in the proposer, spread over a request's first rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.proposer import Proposer
from engine.events import Budget, Prefilled, Round


class Preparing:
    """Prefills a text in the proposer, some chunks at a time."""

    def __init__(self, proposer: Proposer, context: Context, prefilled: Prefilled) -> None:
        """``prefilled``: what the target took in, to which the proposer's time is added."""
        self._chunks, self._started = _chunks(proposer, context), False
        self.prefilled, self.finished = prefilled, False
        self.spread = False
        """Whether rounds begin before it has finished: the first words of a long prompt need not wait."""

    def start(self) -> None:
        """Find out whether there is something to prefill, of the text as it is now."""
        self._started = True
        self._compute(1)  # it stops before the first chunk

    def compute(self, chunks: int = 1) -> float:
        """Prefill the next chunks; return the seconds that it took."""
        began = perf_counter()
        if not self._started:
            self.start()
        self._compute(chunks)
        took = perf_counter() - began
        self.prefilled = replace(self.prefilled, seconds=self.prefilled.seconds + took)
        return took

    def _compute(self, chunks: int) -> None:
        for _ in range(chunks):
            self.finished = self.finished or next(self._chunks, self) is self
        self.spread = self.spread and not self.finished


def _chunks(proposer: Proposer, context: Context) -> Iterator[None]:
    yield from proposer.prepare(context)


class PlainWhilePreparing:
    """Drafts nothing while a proposer's prefill is spread over rounds; then ``inner`` decides."""

    def __init__(self, inner: Controller, preparing: Preparing) -> None:
        self._inner, self._preparing = inner, preparing

    def budget(self) -> Budget:
        return Budget(0, 0) if self._preparing.spread else self._inner.budget()

    def observe(self, round: Round) -> None:
        if self._preparing.spread:
            self._inner.skip_round()
        else:
            self._inner.observe(round)

    def skip_round(self) -> None:
        self._inner.skip_round()
