"""The draft model's cache: whatever was accepted, the next draft is that of a fresh start."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.proposers.draft import DraftModelProposer
from engine.drafting.resources import Resources
from engine.events import Budget, Origin
from engine.models.base import Model
from engine.noise import Stream
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.fakes import FakeState, TableModel
from tests.support.loading import load_model

VOCABULARY = 6
PROMPT = [3, 1, 4, 1, 5]
RULES = [AcceptanceRule.GREEDY, AcceptanceRule.COUPLED, AcceptanceRule.REJECTION]
# Rounds as (depth, how many of the drafted tokens stand).
patterns = st.lists(
    st.integers(1, 15).flatmap(lambda depth: st.tuples(st.just(depth), st.integers(0, depth))),
    min_size=1,
    max_size=5,
)


def table(tokens: Sequence[int]) -> list[float]:
    chance = random.Random(hash(tuple(tokens[-3:])))
    return [chance.gauss(0, 2) for _ in range(VOCABULARY)]


def begin(
    model: Model, context: Context, rule: AcceptanceRule = AcceptanceRule.COUPLED
) -> DraftModelProposer:
    proposer = DraftModelProposer(DraftModelProposer.Options(), Resources(draft=model))
    proposer.begin(context, sampler(context, rule, model.info.vocabulary))
    return proposer


def sampler(
    context: Context, rule: AcceptanceRule = AcceptanceRule.COUPLED, vocabulary: int = VOCABULARY
) -> Sampler:
    return Sampler(Sampling(temperature=0.9, top_p=0.95), rule, 11, context, vocabulary)


def play(proposer: DraftModelProposer, context: Context, rounds: list[tuple[int, int]]) -> None:
    """Goes through ``rounds``, in each of which the target corrects with another token."""
    for depth, stand in rounds:
        drafted = proposer.propose(context, Budget(depth, depth)).tree.tokens
        correction = 0 if stand == depth else (drafted[stand] + 1) % VOCABULARY
        context.tokens += [*drafted[:stand], correction]
        proposer.observe(Acceptance(tuple(range(stand)), correction, Origin.CORRECTION))


def assert_same(first: DraftProposal, second: DraftProposal) -> None:
    assert first.tree == second.tree
    assert (first.q is None) == (second.q is None)
    assert first.q is None or second.q is None or torch.equal(first.q, second.q)
    assert first.chosen_q == second.chosen_q


@settings(max_examples=40, deadline=None)
@given(rounds=patterns, rule=st.sampled_from(RULES))
def test_after_every_pattern_of_acceptance_the_draft_is_that_of_a_fresh_start(
    rounds: list[tuple[int, int]], rule: AcceptanceRule
) -> None:
    model = TableModel(table, VOCABULARY, context=200)
    context = Context(PROMPT)
    proposer = begin(model, context, rule)
    play(proposer, context, rounds)
    assert isinstance(proposer.reader.state, FakeState)
    assert (
        proposer.reader.state.tokens
        == proposer.reader.tokens
        == context.tokens[: len(proposer.reader.tokens)]
    )
    fresh = begin(TableModel(table, VOCABULARY, context=200), context, rule)
    assert_same(proposer.propose(context, Budget(5, 5)), fresh.propose(context, Budget(5, 5)))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_nothing_that_stands_is_computed_again(depth: int) -> None:
    """After a round the cache lacks the correction only, or the last drafted token as well."""
    for stand in range(depth + 1):
        model = TableModel(table, VOCABULARY, context=200)
        context = Context(PROMPT)
        proposer = begin(model, context)
        play(proposer, context, [(depth, stand)])
        assert model.fed == len(PROMPT) + depth - 1
        missing = len(context.tokens) - len(proposer.reader.tokens)
        assert missing == (2 if stand == depth else 1)


@pytest.fixture(scope="module")
def draft(pair: tuple[Path, Path]) -> Model:
    return load_model(pair[1], quantization="fp32")


@settings(max_examples=15, deadline=None)
@given(rounds=patterns)
def test_a_real_drafts_cached_logits_have_the_bits_of_a_fresh_run(
    draft: Model, rounds: list[tuple[int, int]]
) -> None:
    context = Context(PROMPT)
    proposer = begin(draft, context)
    play(proposer, context, rounds)
    fresh = begin(draft, context)
    assert_same(proposer.propose(context, Budget(6, 6)), fresh.propose(context, Budget(6, 6)))


def test_a_follow_up_feeds_only_what_is_new_even_after_a_round_was_abandoned() -> None:
    model = TableModel(table, VOCABULARY, context=200)
    context = Context(PROMPT)
    proposer = begin(model, context)
    play(proposer, context, [(4, 2)])
    proposer.propose(context, Budget(4, 4))  # cancelled: nobody tells what became of it
    fed = model.fed
    longer = Context([*context.tokens, 2, 2])
    proposer.begin(longer, sampler(longer))
    proposer.propose(longer, Budget(1, 1))
    proposer.observe(Acceptance((), 2, Origin.CORRECTION))
    longer.tokens.append(2)
    assert model.fed - fed <= 3
    fresh = begin(TableModel(table, VOCABULARY, context=200), longer)
    assert_same(proposer.propose(longer, Budget(3, 3)), fresh.propose(longer, Budget(3, 3)))


def test_another_text_keeps_only_the_common_beginning() -> None:
    model = TableModel(table, VOCABULARY, context=200)
    context = Context(PROMPT)
    proposer = begin(model, context)
    play(proposer, context, [(4, 4)])
    other = Context([*PROMPT[:3], 0, 0, 0])
    proposer.begin(other, sampler(other))
    assert proposer.reader.tokens == PROMPT[:3]
    assert proposer.reader.state.length == 3


def test_nothing_is_drafted_beyond_the_drafts_context() -> None:
    model = TableModel(table, VOCABULARY, context=8)
    context = Context(PROMPT)
    proposer = begin(model, context)
    play(proposer, context, [(2, 2)])  # 8 tokens now
    proposal = proposer.propose(context, Budget(4, 4))
    assert proposal.tree.tokens == ()
    proposer.observe(Acceptance((), 1, Origin.BONUS))
    context.tokens.append(1)
    assert proposer.propose(context, Budget(4, 4)).tree.tokens == ()
    assert proposer.reader.state.length <= 8


def test_near_its_end_the_draft_is_as_deep_as_there_is_room() -> None:
    model = TableModel(table, VOCABULARY, context=len(PROMPT) + 2)
    context = Context(PROMPT)
    assert len(begin(model, context).propose(context, Budget(9, 9)).tree) == 2


def test_coupled_drafts_use_the_targets_noise_and_rejection_its_own() -> None:
    """A draft that is the target drafts the target's very samples under coupled acceptance."""
    context = Context(PROMPT)
    model = TableModel(table, VOCABULARY, context=200)
    coupled = begin(model, context).propose(context, Budget(15, 15)).tree.tokens
    text = Context(PROMPT)
    own = sampler(text)
    for _ in range(15):
        adjusted = own.adjusted(torch.tensor([table(text.tokens)]), [()])
        p = own.probabilities(adjusted)
        text.tokens += own.choose(adjusted, p, [len(text.tokens)], Stream.CHOICE)
    assert list(coupled) == text.output
    independent = begin(model, context, AcceptanceRule.REJECTION)
    assert independent.propose(context, Budget(15, 15)).tree.tokens != coupled
