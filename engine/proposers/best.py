"""``best``: whatever drafts fastest just now, of all that is loaded.

A draft model and several heads may be loaded at once, and past text is always there. Which of them pays
depends on the machine, the model and the text at hand. The controller measures (see
engine.controllers.choice) and names one for each round; text that is recalled takes its place where
there is enough of it. Under a fixed depth the usual one drafts, and so does text that goes on as far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import ClassVar

from engine import proposers
from engine.acceptance import Acceptance
from engine.context import Context
from engine.events import Budget
from engine.proposers.base import NOTHING, DraftProposal, Proposer, Resources
from engine.proposers.suffix import RECALLING, SuffixProposer, as_proposal
from engine.sampling import Sampler


class BestProposer:
    """Who drafts is settled by the text and by finished rounds, before anything is drawn; why it has to
    be, ``hybrid`` says. Those that do not draft read what they missed when their turn comes.
    """

    Options = SuffixProposer.Options

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: SuffixProposer.Options, resources: Resources) -> None:
        offered = proposers.available(resources)
        self.members: dict[str, Proposer] = {
            name: proposers.create(name, {}, resources)
            for name in proposers.neural()
            if name in offered
        }
        self.suffix = SuffixProposer(options, resources)
        self._usual = proposers.preferred(self.members) if self.members else None
        self._drafting: Proposer | None = None

    def begin(self, context: Context, sampler: Sampler) -> None:
        self._drafting = None
        for proposer in self._all:
            proposer.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[None]:
        return chain.from_iterable(proposer.prepare(context) for proposer in self._all)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        name = budget.proposer or self._usual
        if name is None:
            return self._recalled(context, 1, budget.depth)
        self._drafting = None
        recalled = self._recalled(
            context, budget.least or budget.depth, budget.most or budget.depth
        )
        if recalled.tree.tokens or not budget.depth:
            return recalled
        self._drafting = self.members[name]
        return replace(self._drafting.propose(context, budget), by=name)

    def observe(self, acceptance: Acceptance) -> None:
        if self._drafting is not None:
            self._drafting.observe(acceptance)

    def close(self) -> None:
        for proposer in self._all:
            proposer.close()

    @property
    def _all(self) -> tuple[Proposer | SuffixProposer, ...]:
        return (*self.members.values(), self.suffix)

    def _recalled(self, context: Context, least: int, most: int) -> DraftProposal:
        """Nothing where the text does not go on for ``least`` tokens."""
        if not least <= most:
            return NOTHING
        found = as_proposal(self.suffix.recall(context, most))
        return replace(found, by=RECALLING) if len(found.tree) >= least else NOTHING
