"""``mlp`` and ``lstm``: speculators, a small recurrence that starts at the target's last hidden state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.drafting.heads.lstm import LstmHead
from engine.drafting.heads.mlp import MlpHead
from engine.drafting.proposers.drawing import floors_of, written_out
from engine.drafting.proposers.stateless import StatelessProposer
from engine.drafting.resources import Resources
from engine.events import Budget


class _Recurrent(StatelessProposer):
    """Unrolls its head anew each round, a step for each token.

    The hidden state is the last cached token's, from which the target chose the pending one. The first
    step takes in the pending token, each later one the token drafted before it.
    """

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose: the head comes with the loaded pair."""

    Head: ClassVar[type[MlpHead] | type[LstmHead]]

    def __init__(self, options: Options, resources: Resources) -> None:
        super().__init__(*resources.head(self.Head))

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read, depth = self.target.length, min(budget.depth, self.steps)
        if depth < 1 or read < 1:
            return NOTHING
        known, floors = len(context.tokens), floors_of(self.sampler, budget)
        draft = self.drafts.begin(read, context.tokens[-1])
        return written_out(draft, self.sampler, known, depth, floors)


class MlpProposer(_Recurrent):
    """IBM's speculator: each step mixes a token into the state (see engine.drafting.heads.mlp)."""

    needs: ClassVar[frozenset[str]] = frozenset({MlpHead.kind})
    Head = MlpHead


class LstmProposer(_Recurrent):
    """Arctic's speculator: each step is an LSTM cell (see engine.drafting.heads.lstm)."""

    needs: ClassVar[frozenset[str]] = frozenset({LstmHead.kind})
    Head = LstmHead
