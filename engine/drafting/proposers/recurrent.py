"""``mlp``, ``lstm`` and ``assistant``, unrolled from the target's last hidden state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from engine.backends.executors import executed
from engine.backends.operations import Draft
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal
from engine.drafting.heads.assistant import AssistantDraft, AssistantHead
from engine.drafting.heads.lstm import LstmHead
from engine.drafting.heads.mlp import MlpHead
from engine.drafting.heads.stateless import StatelessDraft, StatelessHead
from engine.drafting.proposers.drawing import HeadProposer, draft_chain, floors_of
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.models.hidden_states import Backbone


class StatelessProposer(HeadProposer):
    """Drafts from the last committed token's hidden state, and keeps nothing between rounds."""

    Drafts: ClassVar[Callable[..., StatelessDraft]] = StatelessDraft

    def __init__(self, head: StatelessHead | AssistantHead, target: Backbone) -> None:
        self.target = target
        self.steps = head.steps
        self.drafts = executed(partial(self.Drafts, head), target)
        self.text = []

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        length, depth = self.target.length, min(budget.depth, self.steps)
        if depth < 1 or length < 1:
            return NOTHING
        draft = self.drafts.begin(length, context.tokens[-1])
        return self._propose(draft, len(context.tokens), depth, budget)

    def read_text(self, context: Context) -> None:
        self.drafts.begin(len(context.tokens) - 1, context.tokens[-1])

    def _propose(self, draft: Draft, position: int, depth: int, budget: Budget) -> DraftProposal:
        floors = floors_of(self.sampler, budget)
        return draft_chain(draft, self.sampler, position, depth, floors)


class _Recurrent(StatelessProposer):
    """Unrolls its head: the first step reads the pending token, each later one the token before it."""

    Head: ClassVar[type[MlpHead] | type[LstmHead] | type[AssistantHead]]

    def __init__(self, options: object, resources: Resources) -> None:
        super().__init__(*resources.head(self.Head))


class MlpProposer(_Recurrent):
    """IBM's speculator: each step mixes a token into the state (see engine.drafting.heads.mlp)."""

    needs: ClassVar[frozenset[str]] = frozenset({MlpHead.kind})
    Head = MlpHead


class LstmProposer(_Recurrent):
    """Arctic's speculator: each step is an LSTM cell (see engine.drafting.heads.lstm)."""

    needs: ClassVar[frozenset[str]] = frozenset({LstmHead.kind})
    Head = LstmHead


class AssistantProposer(_Recurrent):
    """Gemma 4's: narrow layers on the target's keys and values (see engine.drafting.heads.assistant)."""

    needs: ClassVar[frozenset[str]] = frozenset({AssistantHead.kind})
    Head = AssistantHead
    Drafts = AssistantDraft
