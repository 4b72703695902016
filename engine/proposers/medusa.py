"""``medusa``: heads beside the target's output head guess the tokens after the next one, all at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from engine.acceptance import Acceptance
from engine.context import Context
from engine.events import Budget
from engine.features import NORMED
from engine.heads.compiled import compiled
from engine.heads.compiled.stateless import record_medusa
from engine.heads.medusa import MedusaHead
from engine.proposers.base import NOTHING, DraftProposal, Resources
from engine.proposers.drawing import Chain, written_out
from engine.sampling import Sampler


class MedusaProposer:
    """Reads the last token's hidden state each round and remembers nothing.

    The target's own head chose the pending token from that hidden state, so head k's token follows the
    pending one at distance k + 1.
    """

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose: the heads come with the loaded pair."""

    needs: ClassVar[frozenset[str]] = frozenset({MedusaHead.kind})

    def __init__(self, options: Options, resources: Resources) -> None:
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
        chain = Chain(self.sampler, len(context.tokens))
        if self.compiled is None:
            chain.draw_all(self.head(self.target.features(NORMED, read - 1, read), depth))
            return chain.proposal()
        draft = self.compiled.begin(read, context.tokens[-1])
        if self.sampler.takes_likeliest:
            return written_out(draft, self.sampler, len(context.tokens), depth)
        chain.draw_all(self.compiled.all_logits(depth))
        return chain.proposal()

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...
