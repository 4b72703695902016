"""Drawing a chain of drafted tokens from logits, so that what is drawn and its q belong together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.events import Budget, Tree
from engine.heads.compiled.unrolled import Unrolled
from engine.noise import Draws, Stream
from engine.proposers.base import NOTHING, DraftProposal
from engine.sampling import Sampler


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


class Chain:
    """A draft in the making, behind ``known`` tokens of text, as far as it is likelier than ``floor``.

    Each row's logits may depend on the tokens drawn before it and on no later one, or ``rejection``
    and ``block`` would no longer leave the target's distribution; no token drawn may decide whether it
    is drafted.
    """

    def __init__(self, sampler: Sampler, known: int, floor: float = 0.0) -> None:
        self._sampler, self._known, self._stream = sampler, known, stream_of(sampler)
        self._floor, self._together = floor, 1.0  # how likely all tokens are, together
        self.ended = False  # the next tokens would not count
        self.tokens: list[int] = []
        self._count = 0  # of tokens before the one that was too unlikely
        self._rows: list[Tensor] = []
        self._likely: list[float] = []  # of each token, where rows are not kept

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
            likely = found.chances(enumerate(found.tokens))
            self._likely += likely
            self._go_on(likely)
            return
        adjusted = self._sampler.adjusted(logits, [self.tokens] * len(logits))
        p = self._sampler.probabilities(adjusted)
        tokens = self._sampler.choose(adjusted, p, positions, self._stream)
        self.tokens += tokens
        self._rows.append(p)
        self._go_on(p[range(len(tokens)), tokens].tolist() if self._floor else [1.0] * len(tokens))

    def _go_on(self, likely: list[float]) -> None:
        for p in likely:
            self._together *= p
            self.ended = self.ended or self._together < self._floor
            self._count += not self.ended

    def proposal(self) -> DraftProposal:
        """What was drawn and counts, with its q where a rule may weigh it."""
        tokens = self.tokens[: self._count]
        if not tokens:
            return NOTHING
        if not self._rows:
            return DraftProposal(Tree.chain(tokens), None, tuple(self._likely[: self._count]))
        q = torch.cat(self._rows)[: self._count]  # (nodes, vocabulary)
        chosen = q[range(len(tokens)), tokens].tolist()
        return DraftProposal(Tree.chain(tokens), q, tuple(chosen))


def written_out(
    draft: Unrolled,
    sampler: Sampler,
    known: int,
    depth: int,
    floor: float,
    on_target: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> DraftProposal:
    """What a compiled head drafts behind ``known`` tokens of text, as far as ``floor`` allows.

    ``on_target`` widens a head's logits to the target's vocabulary.
    """
    if sampler.reads:
        tokens, likely = draft.write(depth, draws_of(sampler, known, depth), floor)
        return DraftProposal(Tree.chain(tokens), None, tuple(likely))
    chain = Chain(sampler, known, floor)
    for step in range(depth):
        draft.choose(step, chain.draw(on_target(draft.logits(step))))
        if chain.ended:
            break
    return chain.proposal()
