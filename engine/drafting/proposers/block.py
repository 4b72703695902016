"""``block``: a small model that sees the target's hidden states drafts a whole block in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.prefix import chunks, common_prefix
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.block import BlockHead
from engine.drafting.heads.compiled import compiled
from engine.drafting.heads.compiled.block import BlockDraft
from engine.drafting.proposers.drawing import Chain, count_of, draws_of, floor_of
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Tree


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
        self.memory = self.head.new_memory()
        self.compiled = compiled(BlockDraft, self.head, self.target)
        self.text: list[int] = []  # the tokens whose keys and values are kept

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        del self.text[common_prefix(self.text, context.tokens[:-1]) :]

    def prepare(self, context: Context) -> Iterator[None]:
        for chunk in chunks(range(len(self.text), self.target.length)):
            yield
            self._read(context, chunk[0], chunk[-1] + 1)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read, depth = self.target.length, min(budget.depth, self.head.shape.depth)
        if depth < 1 or read < 1:
            return NOTHING
        floor = floor_of(self.sampler, budget)
        if self.compiled is not None:
            return self._compiled(self.compiled, context, depth, floor)
        for chunk in chunks(range(len(self.text), read)):
            self._read(context, chunk[0], chunk[-1] + 1)
        pending = context.tokens[-1]
        states = self.head.states(self.target, pending, self.memory, read)[:depth]
        logits = self.head.logits(self.target, states)
        if self.sampler.takes_likeliest:
            return self._likeliest(states, logits, pending, floor)
        chain = Chain(self.sampler, len(context.tokens), floor)
        if self.head.markov is None and not self._cuts:
            chain.draw_all(logits)
            return chain.proposal()
        # Whether a token is drafted is settled by the tokens before it, so no rule is broken.
        for state, row in zip(states.split(1), logits.split(1), strict=True):
            if self._cuts and self._doubted(state, pending):
                break
            pending = chain.draw(self._behind(row, pending))
            if chain.ended:
                break
        return chain.proposal()

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None:
        self.text.clear()
        self.memory = self.head.new_memory()
        if self.compiled is not None:
            self.compiled.close()

    @property
    def _cuts(self) -> bool:
        return self.options.min_confidence > 0

    def _doubted(self, state: Tensor, before: int) -> bool:
        return self.head.confidence(state, before) < self.options.min_confidence

    def _behind(self, logits: Tensor, before: int) -> Tensor:
        """A row's logits once the token before it is known."""
        markov = self.head.markov
        return logits if markov is None else logits + markov.bias(before)

    def _read(self, context: Context, start: int, end: int) -> None:
        if self.compiled is None:
            self.head.read(self.target, self.memory, start, end)
        else:
            self.compiled.read(start, end)
        self.text += context.tokens[start:end]

    def _compiled(
        self, block: BlockDraft, context: Context, depth: int, floor: float
    ) -> DraftProposal:
        """What ``propose`` drafts in a program."""
        start, read, pending = len(self.text), self.target.length, context.tokens[-1]
        self.text += context.tokens[start:read]
        draft = block.begin(start, read, pending, depth)
        if self.sampler.reads:
            tokens, likely = draft.write(depth, draws_of(self.sampler, read + 1, depth), floor)
            kept = self._confident(block.states[: len(tokens)], [pending, *tokens])
            return DraftProposal(Tree.chain(tokens[:kept]), None, tuple(likely[:kept]))
        chain = Chain(self.sampler, len(context.tokens), floor)
        if self.head.markov is None and not self._cuts:
            chain.draw_all(block.all_logits(depth))
            return chain.proposal()
        for step, state in enumerate(block.states[:depth].split(1)):
            logits = draft.logits(step)
            if self._cuts and self._doubted(state, draft.chain[step]):
                break
            draft.choose(step, chain.draw(logits))
            if chain.ended:
                break
        return chain.proposal()

    @torch.inference_mode()
    def _likeliest(
        self, states: Tensor, logits: Tensor, pending: int, floor: float
    ) -> DraftProposal:
        """What ``propose`` drafts where nothing is drawn and nothing penalised; changes ``logits``."""
        markov, tokens = self.head.markov, [pending]
        if markov is None:
            tokens += logits.argmax(dim=1).tolist()
        else:
            for row in logits.split(1):
                row.add_(markov.bias(tokens[-1]))
                tokens.append(int(row.argmax()))
        drafted = tokens[1 : 1 + self._confident(states, tokens)]
        likely = torch.softmax(logits[: len(drafted)], dim=1).amax(dim=1).tolist()
        kept = count_of(likely, floor)
        return DraftProposal(Tree.chain(drafted[:kept]), None, tuple(likely[:kept]))

    def _confident(self, states: Tensor, tokens: list[int]) -> int:
        """How many of the tokens behind the first of ``tokens`` are drafted."""
        if self._cuts:
            for at, state in enumerate(states.split(1)):
                if self._doubted(state, tokens[at]):
                    return at
        return len(states)
