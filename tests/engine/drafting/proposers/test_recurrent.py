"""Speculators' drafts: a step for each token, fed with what was drafted, drawn from the q they tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting.heads.base import Head
from engine.drafting.proposers import create
from engine.drafting.resources import Resources
from engine.events import Budget, Origin
from engine.kernels.operands import Tokens
from engine.models.hidden_states import NORMED, AuxLayer
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.drawn_drafts import PENALISED, SAMPLED, check_beginning, check_q, with_q
from tests.support.fakes import TableModel
from tests.support.heads import EAGER, FakeShape, in_torch, random_heads

VOCABULARY, STEPS = 9, 3
TEXT = (3, 1, 4, 1, 5, 2)
KINDS = ("mlp", "lstm")
HEADS: dict[str, Head] = random_heads(FakeShape(TableModel.HIDDEN, VOCABULARY, TableModel.LAYERS))

pytestmark = pytest.mark.parametrize("kind", KINDS)


class Watched(Target):
    """Notes which rows are read."""

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        self.read = (aux_layer, start, end)
        return super().aux_hidden_states(aux_layer, start, end)


class Drafter:
    """A target that has read ``text`` but for its last token, and a proposer that drafts for it."""

    def __init__(
        self,
        kind: str,
        sampling: Sampling = SAMPLED,
        rule: AcceptanceRule = AcceptanceRule.COUPLED,
        text: tuple[int, ...] = TEXT,
    ) -> None:
        head = HEADS[kind]
        model = TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY)
        self.target = Watched(model, head.aux_layers)
        self.context = Context(text)
        self.target.extend(self.context.tokens[:-1])
        self.sampler = Sampler(sampling, rule, 4, self.context, VOCABULARY)
        resources = Resources(heads={kind: head}, backbone=self.target)
        self.proposer: Any = create(kind, {}, resources)
        self.proposer.begin(self.context, self.sampler)

    def propose(self, depth: int = 8) -> DraftProposal:
        proposal: DraftProposal = self.proposer.propose(self.context, Budget(depth, depth))
        return proposal


def likeliest(kind: str, state: Tensor, pending: int) -> list[int]:
    """What the head alone says, each step fed with its own choice before."""
    head: Any = HEADS[kind]
    chain = Tokens(STEPS + 1)
    chain[0] = pending
    for step, logits in enumerate(head.draft(EAGER, chain, state)):
        chain[step + 1] = int(logits.argmax())
    return chain[1:]


def test_steps_start_at_the_last_cached_token_and_take_in_the_pending_one(kind: str) -> None:
    with in_torch():  # a program reads them where they lie
        drafter = Drafter(kind, Sampling(), AcceptanceRule.GREEDY)
    proposal = drafter.propose()
    assert drafter.target.read == (NORMED, len(TEXT) - 2, len(TEXT) - 1)
    state = drafter.target.aux_hidden_states(NORMED, len(TEXT) - 2, len(TEXT) - 1)
    assert list(proposal.tree.tokens) == likeliest(kind, state, TEXT[-1])
    assert proposal.tree.parents == (-1, 0, 1)


@pytest.mark.parametrize("depth", [1, 2, 3, 15])
def test_no_more_is_drafted_than_asked_for_or_than_was_trained(kind: str, depth: int) -> None:
    assert len(Drafter(kind).propose(depth).tree) == min(depth, STEPS)


def test_nothing_is_drafted_at_depth_0_or_behind_a_single_token(kind: str) -> None:
    assert Drafter(kind).propose(0).tree.tokens == ()
    assert Drafter(kind, text=(3,)).propose().tree.tokens == ()


@with_q
def test_q_is_what_the_tokens_were_drawn_from(
    kind: str, sampling: Sampling, rule: AcceptanceRule
) -> None:
    drafter = Drafter(kind, sampling, rule)
    proposal = drafter.propose()
    check_q(proposal, drafter.sampler, len(TEXT), STEPS)


def test_whether_a_token_is_drafted_depends_on_no_later_one(kind: str) -> None:
    """A shallower draft is the beginning of a deeper one, q and all, under every rule."""
    for rule in (AcceptanceRule.COUPLED, AcceptanceRule.REJECTION):
        deep, shallow = (Drafter(kind, PENALISED, rule).propose(depth) for depth in (3, 2))
        check_beginning(shallow, deep)


@settings(max_examples=25)
@given(rounds=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=5))
def test_after_any_rounds_the_draft_is_that_of_a_fresh_start(
    kind: str, rounds: list[tuple[int, int]]
) -> None:
    """Whatever was drafted, accepted and rolled back, and behind another request's text."""
    drafter = Drafter(kind, rule=AcceptanceRule.REJECTION)
    for depth, stand in rounds:
        proposal = drafter.propose(depth)
        drafter.target.verify(drafter.context.tokens[-1], proposal.tree)
        path = tuple(range(min(stand, len(proposal.tree))))
        drafter.target.commit(path)
        drafter.proposer.observe(Acceptance(path, 7, Origin.CORRECTION))
        drafter.context.tokens += [*(proposal.tree.tokens[node] for node in path), 7]
    text = tuple(drafter.context.tokens)
    again = drafter.propose()
    fresh = Drafter(kind, rule=AcceptanceRule.REJECTION, text=text).propose()
    assert again.tree == fresh.tree and again.q is not None and fresh.q is not None
    assert torch.equal(again.q, fresh.q)
    other = Context((*TEXT[:3], 8, 8))
    drafter.target.reuse(other.tokens[:-1])
    drafter.target.extend(other.tokens[drafter.target.length : -1])
    drafter.context = other
    drafter.proposer.begin(other, Sampler(SAMPLED, AcceptanceRule.COUPLED, 4, other, VOCABULARY))
    assert drafter.propose().tree == Drafter(kind, text=tuple(other.tokens)).propose().tree
