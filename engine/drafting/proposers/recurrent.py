"""``mlp`` and ``lstm``: speculators, a small recurrence that starts at the target's last hidden state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.heads.compiled import compiled
from engine.drafting.heads.compiled.stateless import record_lstm, record_mlp
from engine.drafting.heads.lstm import LstmHead
from engine.drafting.heads.mlp import MlpHead
from engine.drafting.proposers.drawing import Chain, floor_of, written_out
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.models.hidden_states import NORMED


class _Recurrent:
    """Unrolls its head anew each round, a step for each token; nothing is kept between rounds.

    The hidden state is the last cached token's, from which the target chose the pending one. The first
    step takes in the pending token, each later one the token drafted before it.
    """

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose: the head comes with the loaded pair."""

    Head: ClassVar[type[MlpHead] | type[LstmHead]]
    record: ClassVar[Any]  # (its head, a Backbone) -> Stateless

    def __init__(self, options: Options, resources: Resources) -> None:
        self.head, self.target = resources.head(self.Head)
        self.compiled = compiled(self.record, self.head, self.target)

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        read, depth = self.target.length, min(budget.depth, self.head.steps)
        if depth < 1 or read < 1:
            return NOTHING
        known, floor = len(context.tokens), floor_of(self.sampler, budget)
        if self.compiled is not None:
            draft = self.compiled.begin(read, context.tokens[-1])
            return written_out(draft, self.sampler, known, depth, floor)
        chain = Chain(self.sampler, known, floor)
        state = self.head.start(self.target.features(NORMED, read - 1, read))
        token = context.tokens[-1]
        for step in range(depth):
            state, logits = self.head.step(state, token, step)
            token = chain.draw(logits)
            if chain.ended:
                break
        return chain.proposal()

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...


class MlpProposer(_Recurrent):
    """IBM's speculator: each step mixes a token into the state (see engine.drafting.heads.mlp)."""

    needs: ClassVar[frozenset[str]] = frozenset({MlpHead.kind})
    Head, record = MlpHead, staticmethod(record_mlp)


class LstmProposer(_Recurrent):
    """Arctic's speculator: each step is an LSTM cell (see engine.drafting.heads.lstm)."""

    needs: ClassVar[frozenset[str]] = frozenset({LstmHead.kind})
    Head, record = LstmHead, staticmethod(record_lstm)
