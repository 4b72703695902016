"""Drawing a chain of drafted tokens from logits, so that what is drawn and its q belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import mul

import torch
from torch import Tensor

from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.operations import Draft
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


def floor_of(sampler: Sampler, budget: Budget) -> float:
    """How likely a draft has to be to go on. Rules that weigh q ask for none: see ``Chain``."""
    return 0.0 if sampler.rule.weighs_q else budget.floor


def count_of(likely: Iterable[float], floor: float) -> int:
    """How many tokens of a draft count: up to one that makes all of them less likely than ``floor``."""
    return sum(not together < floor for together in accumulate(likely, mul))  # no number counts


class Chain:
    """A draft in the making, behind ``known`` tokens of text, as far as it is likelier than ``floor``.

    Each row's logits may depend on the tokens drawn before it and on no later one, or ``rejection``
    and ``block`` would no longer leave the target's distribution; no token drawn may decide whether it
    is drafted.
    """

    def __init__(self, sampler: Sampler, known: int, floor: float = 0.0) -> None:
        self._sampler, self._known, self._stream = sampler, known, stream_of(sampler)
        self._floor = floor
        self.tokens: list[int] = []
        self._likely: list[float] = []  # of each token
        self._rows: list[Tensor] = []

    @property
    def ended(self) -> bool:
        """Whether a token was too unlikely to count: none behind it does."""
        return count_of(self._likely, self._floor) < len(self.tokens)

    def draw(self, logits: Tensor) -> int:
        """The next token, from the head's ``logits (1, vocabulary of the draft)``."""
        self._draw(logits)
        return self.tokens[-1]

    def draw_all(self, logits: Tensor) -> None:
        """A token for each row of ``logits``, which do not depend on one another."""
        # A penalty makes a row depend on the tokens before it after all.
        for rows in logits.split(1 if self._sampler.penalises else len(logits)):
            self._draw(rows)

    def _draw(self, logits: Tensor) -> None:
        first = self._known + len(self.tokens)
        positions = range(first, first + len(logits))
        found = self._sampler.read(logits, positions, self._stream)
        if found is not None:
            self.tokens += found.tokens
            self._likely += found.chances(enumerate(found.tokens))
            return
        adjusted = self._sampler.adjusted(logits, [self.tokens] * len(logits))
        p = self._sampler.probabilities(adjusted)
        tokens = self._sampler.choose(adjusted, p, positions, self._stream)
        self.tokens += tokens
        self._likely += p[range(len(tokens)), tokens].tolist()
        self._rows.append(p)

    def proposal(self) -> DraftProposal:
        """What was drawn and counts, with its q where a rule may weigh it."""
        count = count_of(self._likely, self._floor)
        if not count:
            return NOTHING
        q = torch.cat(self._rows)[:count] if self._rows else None  # (nodes, vocabulary)
        return DraftProposal(Tree.chain(self.tokens[:count]), q, tuple(self._likely[:count]))


def writes(draft: Draft, sampler: Sampler) -> bool:
    """Whether a head's executor chooses the tokens itself."""
    return sampler.reads and (draft.draws or sampler.takes_likeliest)


def written_out(
    draft: Draft,
    sampler: Sampler,
    known: int,
    depth: int,
    floor: float,
    on_target: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> DraftProposal:
    """What a head drafts behind ``known`` tokens of text, as far as ``floor`` allows.

    ``on_target`` widens a head's logits to the target's vocabulary.
    """
    if writes(draft, sampler):
        tokens, likely = draft.write(depth, draws_of(sampler, known, depth), floor)
        return DraftProposal(Tree.chain(tokens), None, tuple(likely))
    chain = Chain(sampler, known, floor)
    for step in range(depth):
        draft.choose(step, chain.draw(on_target(draft.logits(step))))
        if chain.ended:
            break
    return chain.proposal()
