"""``medusa``: heads beside the target's output head guess the tokens after the next one, all at once."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.drafting.heads.medusa import MedusaHead
from engine.drafting.proposers.branches import BranchOptions, Level, candidates, grow
from engine.drafting.proposers.drawing import Chain, Floors, floors_of, written_out
from engine.drafting.proposers.stateless import StatelessProposer
from engine.drafting.resources import Resources
from engine.events import Budget


class MedusaProposer(StatelessProposer):
    """Reads the last token's hidden state once for all tokens of a draft.

    The target's own head chose the pending token from that hidden state, so head k's token follows the
    pending one at distance k + 1.
    """

    Options = BranchOptions

    needs: ClassVar[frozenset[str]] = frozenset({MedusaHead.kind})

    def __init__(self, options: BranchOptions, resources: Resources) -> None:
        super().__init__(*resources.head(MedusaHead))
        self.options = options

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read, depth = self.target.length, min(budget.depth, self.steps)
        if depth < 1 or read < 1:
            return NOTHING
        known, floors = len(context.tokens), floors_of(self.sampler, budget)
        nodes = self.options.nodes(self.sampler, self.target, budget)
        draft = self.drafts.begin(read, context.tokens[-1])
        if nodes:
            return self._branched(draft.all_logits(depth), known, nodes, floors)
        if draft.draws and self.sampler.samples_raw:
            return written_out(draft, self.sampler, known, depth, floors)
        chain = Chain(self.sampler, known, floors)
        chain.draw_all(draft.all_logits(depth))
        return chain.proposal()

    def _branched(self, logits: Tensor, known: int, nodes: int, floors: Floors) -> DraftProposal:
        """Heads do not see each other's choices: any token may stand behind any of the head before."""
        levels: list[Level] = []
        for place, row in enumerate(logits.split(1)):
            drafted = [level.tokens[0] for level in levels]
            levels.append(candidates(self.sampler, row, drafted, known + place))
        return grow(levels, nodes, floors.counts, spread=True)
