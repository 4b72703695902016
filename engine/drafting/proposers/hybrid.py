"""``hybrid``: past text where it is sure enough of itself, a model's draft everywhere else.

Arctic Inference's combination (SuffixDecoding, Oliaro et al. 2024, arXiv 2411.04975): a suffix draft
takes the place of the neural one where its score, the number of right tokens it expects, is at least
the length of the neural draft, so at least what that could reach at best. Where text repeats itself,
whole runs are drafted for nothing; elsewhere the model drafts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.drafting import proposers
from engine.drafting.proposers.suffix import RECALLING, SuffixProposer, as_proposal
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget
from engine.request import FIXED_DEPTH
from engine.values import MAX_DEPTH

_LOOKING_ON = Budget(0, 0)


class HybridProposer:
    """Two proposers, of which one drafts in each round while the other looks on.

    Who drafts is settled by the text alone, before anything is drawn. Under ``rejection`` it has to
    be: a draft that was drawn and then dropped for what it says would leave the drafts that do get
    judged distributed otherwise than their q, and the output otherwise than p. So the neural draft
    counts with its length, not with its tokens or their probabilities.
    """

    @dataclass(frozen=True, slots=True)
    class Options(SuffixProposer.Options):
        neural: str = field(
            default="draft",
            metadata={
                "help": "what drafts where the text does not repeat itself",
                # Asked later: while this file is read the registry is not whole.
                "choices": proposers.neural,
            },
        )
        neural_depth: int = field(
            default=FIXED_DEPTH,
            metadata={"help": "tokens that it drafts a round, at most; a suffix may go deeper"},
        )

        def __post_init__(self) -> None:
            SuffixProposer.Options.__post_init__(self)  # slots: there is no super() to ask
            models = proposers.neural()
            if self.neural not in models:
                raise InvalidRequest(
                    "options", f"neural is {self.neural!r}; it must be one of {', '.join(models)}."
                )
            if not 1 <= self.neural_depth <= MAX_DEPTH:
                raise InvalidRequest(
                    "options",
                    f"neural_depth is {self.neural_depth}; it must be 1 to {MAX_DEPTH}.",
                )

    needs: ClassVar[frozenset[str]] = frozenset({"draft"})

    def __init__(self, options: Options, resources: Resources) -> None:
        self.neural_depth = options.neural_depth
        self.drafting = options.neural
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
            # To the other this is a round in which it may draft nothing: it takes note of the text,
            # and observes below what stood, so that it catches up when its turn comes.
            self.neural.propose(context, _LOOKING_ON)
            return as_proposal(recalled, RECALLING)
        drafted = self.neural.propose(context, replace(budget, depth=length))
        # It drafts nothing where its own context ends; that too is known before anything is drawn.
        if len(drafted.tree):
            return replace(drafted, by=self.drafting)
        return as_proposal(recalled, RECALLING)

    def observe(self, acceptance: Acceptance) -> None:
        self.neural.observe(acceptance)
        self.suffix.observe(acceptance)

    def close(self) -> None:
        self.neural.close()
        self.suffix.close()
