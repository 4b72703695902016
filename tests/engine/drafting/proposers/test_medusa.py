"""Medusa's drafts: head k for the token k + 1 behind the pending one, drawn from the q it tells."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting.heads.medusa import MedusaHead
from engine.drafting.proposers.medusa import MedusaProposer
from engine.drafting.resources import Resources
from engine.events import Budget
from engine.models.hidden_states import NORMED, AuxLayer
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.drawn_drafts import PENALISED, SAMPLED, check_beginning, check_q, with_q
from tests.support.fakes import TableModel

VOCABULARY, HEADS = 9, 3
TEXT = (3, 1, 4, 1, 5, 2)


def weight(head: int) -> Tensor:
    generator = torch.Generator().manual_seed(head)
    return torch.randn(VOCABULARY, TableModel.HIDDEN, generator=generator)


HEAD = MedusaHead(tuple((partial(F.linear, weight=weight(k)),) for k in range(HEADS)))


class Watched(Target):
    """Notes which rows are read."""

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        self.read = (aux_layer, start, end)
        return super().aux_hidden_states(aux_layer, start, end)


def propose(
    sampling: Sampling = SAMPLED,
    rule: AcceptanceRule = AcceptanceRule.COUPLED,
    depth: int = 8,
    text: tuple[int, ...] = TEXT,
) -> tuple[DraftProposal, Watched, Sampler]:
    target = Watched(TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY), HEAD.aux_layers)
    context = Context(text)
    target.extend(context.tokens[:-1])
    sampler = Sampler(sampling, rule, 4, context, VOCABULARY)
    resources = Resources(heads={"medusa": HEAD}, backbone=target)
    proposer = MedusaProposer(MedusaProposer.Options(), resources)
    proposer.begin(context, sampler)
    return proposer.propose(context, Budget(depth, depth)), target, sampler


def test_each_head_reads_the_last_cached_token_and_drafts_one() -> None:
    proposal, target, _ = propose(Sampling(), AcceptanceRule.GREEDY)
    assert target.read == (NORMED, len(TEXT) - 2, len(TEXT) - 1)
    state = target.aux_hidden_states(NORMED, len(TEXT) - 2, len(TEXT) - 1)
    expected = [int((weight(k) @ state[0]).argmax()) for k in range(HEADS)]
    assert list(proposal.tree.tokens) == expected
    assert proposal.tree.parents == (-1, 0, 1)


@pytest.mark.parametrize("depth", [1, 2, 3, 15])
def test_no_more_is_drafted_than_asked_for_or_than_there_are_heads(depth: int) -> None:
    assert len(propose(depth=depth)[0].tree) == min(depth, HEADS)


def test_nothing_is_drafted_at_depth_0_or_behind_a_single_token() -> None:
    assert propose(depth=0)[0].tree.tokens == ()
    assert propose(text=(3,))[0].tree.tokens == ()


@with_q
def test_q_is_what_the_tokens_were_drawn_from(sampling: Sampling, rule: AcceptanceRule) -> None:
    proposal, _, sampler = propose(sampling, rule)
    check_q(proposal, sampler, len(TEXT), HEADS)


def test_whether_a_token_is_drafted_depends_on_no_later_one() -> None:
    """A shallower draft is the beginning of a deeper one, q and all, under every rule."""
    for rule in (AcceptanceRule.COUPLED, AcceptanceRule.REJECTION):
        deep, shallow = (propose(PENALISED, rule, depth)[0] for depth in (3, 2))
        check_beginning(shallow, deep)
