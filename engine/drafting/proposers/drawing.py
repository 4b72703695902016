"""Drawing a chain of drafted tokens from logits, so that what is drawn and its q belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import mul
from typing import NamedTuple

import torch
from torch import Tensor

from engine.backends.operations import Draft
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.events import Budget, Tree
from engine.noise import Draws, Stream


def stream_of(sampler: Sampler) -> Stream:
    """The noise that drafts are drawn with.

    Under ``coupled`` the target's own, so that both tend to choose alike; under ``rejection`` and
    ``block`` another, because there the draws must be independent.
    """
    return Stream.DRAFT if sampler.rule.weighs_q else Stream.CHOICE


def draws_of(sampler: Sampler, known: int, depth: int) -> Draws | None:
    """How a draft of ``depth`` tokens behind ``known`` ones is drawn; None: each is the likeliest."""
    return sampler.draws(range(known, known + depth), stream_of(sampler))


class Floors(NamedTuple):
    """How likely all tokens of a draft together have to be: to go on, and to be verified."""

    goes_on: float = 0.0
    counts: float = 0.0

    def ended(self, likely: Iterable[float]) -> bool:
        """Whether no token is drafted behind those."""
        return any(together < self.goes_on for together in accumulate(likely, mul))

    def count(self, likely: Iterable[float]) -> int:
        """How many of the tokens up to the last that is drafted are worth a row of the target's step.

        One whose likelihood is no number is worth it.
        """
        count = 0
        for together in accumulate(likely, mul):
            if together < self.counts:
                break
            count += 1
            if together < self.goes_on:
                break
        return count


def floors_of(sampler: Sampler, budget: Budget) -> Floors:
    """Those of a round. Rules that weigh q ask for none: see ``Chain``."""
    return Floors() if sampler.rule.weighs_q else Floors(budget.floor, budget.row_floor)


class Chain:
    """A draft in the making, behind ``known`` tokens of text, as far as ``floors`` allow.

    Each row's logits may depend on the tokens drawn before it and on no later one, or ``rejection``
    and ``block`` would no longer leave the target's distribution; no token drawn may decide whether it
    is drafted.
    """

    def __init__(self, sampler: Sampler, known: int, floors: Floors) -> None:
        self._sampler, self._known, self._stream = sampler, known, stream_of(sampler)
        self._floors = floors
        self.tokens: list[int] = []
        self._likely: list[float] = []  # of each token
        self._rows: list[Tensor] = []

    @property
    def ended(self) -> bool:
        """Whether a token was too unlikely to go on behind it."""
        return self._floors.ended(self._likely)

    def draw(self, logits: Tensor) -> int:
        """The next token, from the head's ``logits (1, vocabulary of the draft)``."""
        self._draw(logits)
        return self.tokens[-1]

    def draw_all(self, logits: Tensor) -> None:
        """A token for each row of ``logits``, which do not depend on one another."""
        # A penalty or a grammar makes a row depend on the tokens before it after all.
        for rows in logits.split(1 if self._sampler.uses_context else len(logits)):
            self._draw(rows)

    def _draw(self, logits: Tensor) -> None:
        first = self._known + len(self.tokens)
        positions = range(first, first + len(logits))
        found = self._sampler.sample_raw(logits, positions, self._stream)
        if found is not None:
            self.tokens += found.tokens
            self._likely += found.probabilities(enumerate(found.tokens))
            return
        adjusted = self._sampler.adjusted(logits, [self.tokens] * len(logits))
        p = self._sampler.probabilities(adjusted)
        tokens = self._sampler.choose(adjusted, p, positions, self._stream)
        self.tokens += tokens
        self._likely += p[range(len(tokens)), tokens].tolist()
        self._rows.append(p)

    def proposal(self) -> DraftProposal:
        """What was drawn and counts, with its q where a rule may weigh it."""
        count = self._floors.count(self._likely)
        if not count:
            return NOTHING
        q = torch.cat(self._rows)[:count] if self._rows else None  # (nodes, vocabulary)
        return DraftProposal(Tree.chain(self.tokens[:count]), q, tuple(self._likely[:count]))


def written(tokens: list[int], likely: list[float], floors: Floors) -> DraftProposal:
    """Of tokens that a model wrote those that count."""
    count = floors.count(likely)
    return DraftProposal(Tree.chain(tokens[:count]), None, tuple(likely[:count]))


def writes(draft: Draft, sampler: Sampler) -> bool:
    """Whether a head's executor chooses the tokens itself."""
    return sampler.samples_raw and (draft.draws or sampler.takes_argmax)


def written_out(
    draft: Draft,
    sampler: Sampler,
    known: int,
    depth: int,
    floors: Floors,
    on_target: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> DraftProposal:
    """What a head drafts behind ``known`` tokens of text, as far as ``floors`` allow.

    ``on_target`` widens a head's logits to the target's vocabulary.
    """
    if writes(draft, sampler):
        tokens, likely = draft.write(depth, draws_of(sampler, known, depth), floors.goes_on)
        return written(tokens, likely, floors)
    chain = Chain(sampler, known, floors)
    for step in range(depth):
        draft.choose(step, chain.draw(on_target(draft.logits(step))))
        if chain.ended:
            break
    return chain.proposal()
