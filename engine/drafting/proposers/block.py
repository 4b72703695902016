"""``block``: a small model that sees the target's hidden states drafts a whole block in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from torch import Tensor

from engine.backends.executors import executed
from engine.backends.operations import Draft
from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context, chunks, common_prefix
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.block import BlockDraft, BlockHead
from engine.drafting.proposers.drawing import Chain, Floors, draws_of, floors_of, writes, written
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget


class BlockProposer:
    """Keeps the head's keys and values of the text; catches up with it before each draft.

    They come from hidden states of tokens that are in the text for good, so what is rejected never
    gets there. The pass always has all rows of the block, which is how the head was trained, however
    few of them are asked for: a shallower draft is the beginning of a deeper one.
    """

    @dataclass(frozen=True, slots=True)
    class Options:
        min_confidence: float = field(
            default=0.0,
            metadata={
                "help": "a draft ends before a token that the head expects to be accepted less "
                "often than this; only for heads with a confidence head"
            },
        )

        def __post_init__(self) -> None:
            if not 0 <= self.min_confidence <= 1:
                raise InvalidRequest(
                    "options", f"min_confidence is {self.min_confidence}; it must be 0 to 1."
                )

    needs: ClassVar[frozenset[str]] = frozenset({BlockHead.kind})

    def __init__(self, options: Options, resources: Resources) -> None:
        self.options = options
        self.head, self.target = resources.head(BlockHead)
        self.drafts = executed(partial(BlockDraft, self.head), self.target)
        self.text: list[int] = []  # content keys of the tokens whose keys and values are kept

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        del self.text[common_prefix(self.text, context.keys[:-1]) :]

    def prepare(self, context: Context) -> Iterator[None]:
        for chunk in chunks(range(len(self.text), self.target.length)):
            yield
            self.drafts.read(chunk[0], chunk[-1] + 1)
            self.text += context.keys[chunk[0] : chunk[-1] + 1]

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read, depth = self.target.length, min(budget.depth, self.head.shape.depth)
        if depth < 1 or read < 1:
            return NOTHING
        floors, known = floors_of(self.sampler, budget), len(self.text)
        self.text += context.keys[known:read]
        draft = self.drafts.begin(known, read, context.tokens[-1], depth)
        if draft.draws and self.sampler.samples_raw:
            return self._written(draft, read + 1, depth, floors)
        chain = Chain(self.sampler, len(context.tokens), floors)
        if self.head.markov is None and not self._stops_early:
            draft.logits(0)  # one pass makes those of all steps
            chain.draw_all(self.drafts.logits[:depth])
            return chain.proposal()
        if writes(draft, self.sampler):
            return self._written(draft, read + 1, depth, floors)
        # Whether a token is drafted is settled by the tokens before it, so no rule is broken.
        for step in range(depth):
            logits = draft.logits(step)
            if self._stops_early and self._doubted(
                self.drafts.states[step : step + 1], draft.chain[step]
            ):
                break
            draft.choose(step, chain.draw(logits))
            if chain.ended:
                break
        return chain.proposal()

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None:
        self.text.clear()
        self.drafts.close()

    @property
    def _stops_early(self) -> bool:
        return self.options.min_confidence > 0

    def _doubted(self, state: Tensor, before: int) -> bool:
        return self.head.confidence(state, before) < self.options.min_confidence

    def _written(self, draft: Draft, known: int, depth: int, floors: Floors) -> DraftProposal:
        """What ``propose`` drafts where the executor chooses the tokens."""
        draws = draws_of(self.sampler, known, depth)
        tokens, likely = draft.write(depth, draws, floors.goes_on)
        kept = self._confident(self.drafts.states[: len(tokens)], [draft.chain[0], *tokens])
        return written(tokens[:kept], likely[:kept], floors)

    def _confident(self, states: Tensor, tokens: list[int]) -> int:
        """How many of the tokens behind the first of ``tokens`` are drafted."""
        if self._stops_early:
            for at, state in enumerate(states.split(1)):
                if self._doubted(state, tokens[at]):
                    return at
        return len(states)
