"""``medusa``: heads beside the target's output head predict the tokens after the next one in one pass."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from engine.backends.operations import Draft
from engine.decoding.proposer import DraftProposal
from engine.drafting.heads.medusa import MedusaHead
from engine.drafting.proposers.branches import (
    BranchingProposer,
    BranchOptions,
    Level,
    candidates,
    grow,
)
from engine.drafting.proposers.drawing import Chain, Floors, floors_of
from engine.drafting.proposers.recurrent import StatelessProposer
from engine.drafting.resources import Resources
from engine.events import Budget


class MedusaProposer(BranchingProposer, StatelessProposer):
    """Reads the last committed token's hidden state once for all tokens of a draft.

    The target chose the pending token from that hidden state, so head k predicts the token k + 1 places
    after the pending one.
    """

    Options = BranchOptions

    needs: ClassVar[frozenset[str]] = frozenset({MedusaHead.kind})

    def __init__(self, options: BranchOptions, resources: Resources) -> None:
        StatelessProposer.__init__(self, *resources.head(MedusaHead))
        self.options = options

    def _propose(self, draft: Draft, position: int, depth: int, budget: Budget) -> DraftProposal:
        floors = floors_of(self.sampler, budget)
        nodes = self.options.nodes(self.sampler, self.target, budget)
        if nodes:
            return self._tree(draft.all_logits(depth).cpu(), position, nodes, floors)
        if draft.draws and self.sampler.samples_raw:
            return super()._propose(draft, position, depth, budget)
        chain = Chain(self.sampler, position, floors)
        chain.draw_all(draft.all_logits(depth))
        return chain.proposal()

    def _tree(self, logits: Tensor, position: int, nodes: int, floors: Floors) -> DraftProposal:
        """Return a tree. Heads do not see each other's choices, so any token may follow any other."""
        levels: list[Level] = []
        for step, row in enumerate(logits.split(1)):
            drafted = [level.tokens[0] for level in levels]
            levels.append(candidates(self.sampler, row, drafted, position + step))
        return grow(levels, nodes, floors.row_floor, spread=True)
