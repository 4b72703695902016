"""``medusa``: heads beside the target's output head guess the tokens after the next one, all at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.compiled import compiled
from engine.drafting.heads.compiled.stateless import record_medusa
from engine.drafting.heads.medusa import MedusaHead
from engine.drafting.proposers.branches import BranchOptions, Level, candidates, grow
from engine.drafting.proposers.drawing import Chain, floor_of, written_out
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.models.hidden_states import NORMED


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
        self.compiled = compiled(record_medusa, self.head, self.target)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read, depth = self.target.length, min(budget.depth, len(self.head.heads))
        if depth < 1 or read < 1:
            return NOTHING
        known, floor = len(context.tokens), floor_of(self.sampler, budget)
        nodes = self.options.nodes(self.sampler, self.target, budget)
        if self.compiled is None:
            logits = self.head(self.target.features(NORMED, read - 1, read), depth)
        else:
            draft = self.compiled.begin(read, context.tokens[-1])
            if self.sampler.reads and not nodes:
                return written_out(draft, self.sampler, known, depth, floor)
            logits = self.compiled.all_logits(depth)
        if nodes:
            return self._branched(logits, known, nodes, floor)
        chain = Chain(self.sampler, known, floor)
        chain.draw_all(logits)
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
