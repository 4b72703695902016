"""``medusa``: heads beside the target's output head guess the tokens after the next one, all at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.executors import executed
from engine.drafting.heads.medusa import MedusaHead
from engine.drafting.heads.stateless import StatelessDraft
from engine.drafting.proposers.branches import BranchOptions, Level, candidates, grow
from engine.drafting.proposers.drawing import Chain, floor_of, written_out
from engine.drafting.resources import Resources
from engine.events import Budget


class MedusaProposer:
    """Reads the last token's hidden state each round and remembers nothing.

    The target's own head chose the pending token from that hidden state, so head k's token follows the
    pending one at distance k + 1.
    """

    Options = BranchOptions

    needs: ClassVar[frozenset[str]] = frozenset({MedusaHead.kind})

    def __init__(self, options: BranchOptions, resources: Resources) -> None:
        self.options = options
        self.head, self.target = resources.head(MedusaHead)
        self.drafts = executed(partial(StatelessDraft, self.head), self.target)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read, depth = self.target.length, min(budget.depth, self.head.steps)
        if depth < 1 or read < 1:
            return NOTHING
        known, floor = len(context.tokens), floor_of(self.sampler, budget)
        nodes = self.options.nodes(self.sampler, self.target, budget)
        draft = self.drafts.begin(read, context.tokens[-1])
        if nodes:
            return self._branched(draft.all_logits(depth), known, nodes, floor)
        if draft.draws and self.sampler.reads:
            return written_out(draft, self.sampler, known, depth, floor)
        chain = Chain(self.sampler, known, floor)
        chain.draw_all(draft.all_logits(depth))
        return chain.proposal()

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...

    def _branched(self, logits: Tensor, known: int, nodes: int, floor: float) -> DraftProposal:
        """Heads do not see each other's choices: any token may stand behind any of the head before."""
        levels: list[Level] = []
        for place, row in enumerate(logits.split(1)):
            drafted = [level.tokens[0] for level in levels]
            levels.append(candidates(self.sampler, row, drafted, known + place))
        return grow(levels, nodes, floor, spread=True)
