"""Drafting with a chosen acceptance: for weights that mean nothing, such as random ones.

The time of speculation depends on the shapes of the models and on how often the draft is right. A
random model has the shape but no draft that knows it. So its reply is found first, by plain decoding,
and then drafted with mistakes at a set rate. A real draft model runs for every drafted token, and its
time counts; only what it says is replaced.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.proposers.draft import DraftModelProposer
from engine.events import Budget, Tree


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Nothing to choose by name."""


class SimulatedProposer:
    """Says what will come, each token with the probability ``rate``, else another one.

    For greedy decoding only. Not in the registry: there it could be taken for a method.
    """

    Options: ClassVar[type] = NoOptions
    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, draft: DraftModelProposer, rate: float, seed: int, vocabulary: int) -> None:
        """``draft`` is asked for every draft, for its time."""
        self.draft, self.rate, self.seed, self.vocabulary = draft, rate, seed, vocabulary
        self.known: Sequence[int] = ()

    def expect(self, reply: Sequence[int]) -> None:
        """What the target is going to say to the next prompt."""
        self.known = reply

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.chance = random.Random(f"{self.seed}:{context.tokens[:64]}")
        self.draft.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[None]:
        return self.draft.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        count = len(self.draft.propose(context, budget).tree)
        ahead = self.known[context.generated : context.generated + count]
        tokens = [
            token if self.chance.random() < self.rate else (token + 1) % self.vocabulary
            for token in ahead
        ]
        return DraftProposal(Tree.chain(tokens), None, (None,) * len(tokens))

    def observe(self, acceptance: Acceptance) -> None:
        # The draft keeps positions, not words: what it holds is cut to the length of the text.
        self.draft.observe(acceptance)

    def close(self) -> None:
        self.draft.close()
