"""``hybrid``: recalled text where it is long enough, a neural draft elsewhere.

Arctic Inference's combination (SuffixDecoding, Oliaro et al. 2024, arXiv 2411.04975): a suffix draft
replaces the neural one if its score, the expected number of correct tokens, is at least the length of
the neural draft, which is the most that one could reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting import proposers
from engine.drafting.proposers.drawing import deterministic, option
from engine.drafting.proposers.suffix import RECALLING, SuffixProposer
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.request import FIXED_DEPTH
from engine.values import MAX_DEPTH

_NO_DRAFT = Budget(0, 0)


class HybridProposer:
    """Two proposers, one of which drafts in each round.

    The text alone decides which, before anything is drawn. Under ``rejection`` it must: if a drawn draft
    were dropped for its tokens or probabilities, the remaining drafts would not be distributed as q, nor
    the output as p. So the neural draft counts by its length.
    """

    @dataclass(frozen=True, slots=True)
    class Options(SuffixProposer.Options):
        # ``neural`` is called later: the registry is incomplete while this module is imported.
        neural: str = option(
            "draft", "drafts if the text does not repeat itself", choices=proposers.neural
        )
        neural_depth: int = option(
            FIXED_DEPTH,
            "most tokens this one drafts per round; a suffix may be longer",
            range=(1, MAX_DEPTH),
        )

    needs: ClassVar[frozenset[str]] = frozenset({"draft"})

    def __init__(self, options: Options, resources: Resources) -> None:
        self.neural_depth = options.neural_depth
        self.neural_name = options.neural
        self.neural: Proposer = proposers.create(options.neural, {}, resources)
        self.suffix = SuffixProposer(options, resources)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.neural.begin(context, sampler)
        self.suffix.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[None]:
        return chain(self.neural.prepare(context), self.suffix.prepare(context))

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        recalled = self.suffix.recall(context, budget.depth)
        length = min(budget.depth, self.neural_depth)
        if recalled.score >= length:
            # An empty proposal, after which the neural proposer may observe this round and catch up.
            self.neural.propose(context, _NO_DRAFT)
            return deterministic(recalled.tokens, RECALLING)
        drafted = self.neural.propose(context, replace(budget, depth=length))
        # It drafts nothing at the end of its own context, which too is known before anything is drawn.
        if len(drafted.tree):
            return replace(drafted, by=self.neural_name)
        return deterministic(recalled.tokens, RECALLING)

    def observe(self, acceptance: Acceptance) -> None:
        self.neural.observe(acceptance)
        self.suffix.observe(acceptance)

    def close(self) -> None:
        self.neural.close()
        self.suffix.close()
