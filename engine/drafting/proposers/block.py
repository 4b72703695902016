"""``block``: a small model on the target's hidden states drafts several tokens in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from engine.backends.executors import executed
from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.proposer import NOTHING, DeviceDrafting, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.block import BlockDraft, BlockHead
from engine.drafting.proposers.drawing import (
    Chain,
    HeadProposer,
    above_floors,
    draws_of,
    executor_samples,
    floors_of,
    option,
)
from engine.drafting.resources import Resources
from engine.events import Budget


class BlockProposer(HeadProposer):
    """Keeps the head's keys and values of the text; catches up with it before each draft.

    They are computed from the hidden states of committed tokens only. The pass always has all rows of the
    block, as in the head's training, so a shallower draft is a prefix of a deeper one.
    """

    @dataclass(frozen=True, slots=True)
    class Options:
        min_confidence: float = option(
            0.0,
            "end a draft before a token with less confidence than this; needs a head that "
            "predicts confidence",
            range=(0, 1),
        )

    needs: ClassVar[frozenset[str]] = frozenset({BlockHead.kind})

    def __init__(self, options: Options, resources: Resources) -> None:
        self.options = options
        self.head, self.target = resources.head(BlockHead)
        self.drafts = executed(partial(BlockDraft, self.head), self.target)
        self.text: list[int] = []  # content keys of the tokens whose keys and values are stored

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        del self.text[common_prefix(self.text, context.keys[:-1]) :]

    def prepare(self, context: Context) -> Iterator[int]:
        missing = range(len(self.text), self.target.length)
        for chunk in chunks(missing):
            yield missing.stop - chunk[0]
            self.drafts.read(chunk[0], chunk[-1] + 1)
            self.text += context.keys[chunk[0] : chunk[-1] + 1]

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        length, depth = self.target.length, min(budget.depth, self.head.shape.depth)
        if depth < 1 or length < 1:
            return NOTHING
        sampler, floors, position = self.sampler, floors_of(self.sampler, budget), length + 1
        start = len(self.text)
        self.text += context.keys[start:length]
        draft = self.drafts.begin(start, length, context.tokens[-1], depth)
        independent = self.head.independent and not self._stops_early
        if executor_samples(draft, sampler) and (draft.draws or not independent):
            tokens, q = draft.write(depth, draws_of(sampler, position, depth), floors.floor)
            count = self._confident(self.drafts.states[: len(tokens)], [draft.chain[0], *tokens])
            return above_floors(tokens[:count], q[:count], floors)
        chain = Chain(sampler, position, floors)
        if independent:
            draft.logits(0)  # one pass computes those of all steps
            chain.draw_all(self.drafts.logits[:depth])
            return chain.proposal()
        # Only earlier tokens decide whether a token is drafted, as ``Chain`` demands.
        for step in range(depth):
            logits = draft.logits(step)
            if not self._confident(self.drafts.states[step : step + 1], [draft.chain[step]]):
                break
            draft.chain[step + 1] = chain.draw(logits)
            if chain.ended:
                break
        return chain.proposal()

    def device_drafting(self) -> DeviceDrafting | None:
        """See ``RoundProposer``. A round cannot end a draft early."""
        return None if self._stops_early else super().device_drafting()

    def read_text(self, context: Context) -> None:
        start, length = len(self.text), len(context.tokens) - 1
        self.text += context.keys[start:length]
        self.drafts.begin(start, length, context.tokens[-1], 1)

    def close(self) -> None:
        self.text.clear()
        self.drafts.close()

    @property
    def _stops_early(self) -> bool:
        return self.options.min_confidence > 0

    def _confident(self, states: Tensor, before: list[int]) -> int:
        """Return how many rows of ``states`` to draft; row i follows token ``before[i]``."""
        if self._stops_early:
            for row, state in enumerate(states.split(1)):
                if self.head.confidence(state, before[row]) < self.options.min_confidence:
                    return row
        return len(states)
