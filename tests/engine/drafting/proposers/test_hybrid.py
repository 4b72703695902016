"""Suffix over neural drafts: who drafts, caches in step, and the target's distribution."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.host import HostLauncher
from engine.decoding.loop import StoppingCriteria
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.verifier import Verifier
from engine.drafting import proposers
from engine.drafting.controllers.factory import Fixed
from engine.drafting.draft_reader import SameVocabulary
from engine.drafting.proposers.best import HybridProposer
from engine.drafting.proposers.draft import DraftModelProposer
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Origin, Round
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.chi_square import chi_square
from tests.support.decoding import decode
from tests.support.fakes import TableModel

VOCABULARY = 5
RULES = [AcceptanceRule.GREEDY, AcceptanceRule.COUPLED, AcceptanceRule.REJECTION]
texts = st.lists(st.integers(0, 2), min_size=1, max_size=20)


def table(tokens: Sequence[int], salt: int = 0) -> list[float]:
    chance = random.Random(hash((*tokens[-2:], salt)))
    return [chance.gauss(0, 1) for _ in range(VOCABULARY)]


def begin(
    context: Context, rule: AcceptanceRule = AcceptanceRule.GREEDY, seed: int = 3, **options: object
) -> HybridProposer:
    draft = TableModel(lambda tokens: table(tokens, 1), VOCABULARY, context=400)
    proposer = proposers.create("hybrid", options, Resources(draft=draft))
    assert isinstance(proposer, HybridProposer)
    proposer.begin(context, sampler(context, rule, seed))
    return proposer


def sampler(context: Context, rule: AcceptanceRule, seed: int = 3) -> Sampler:
    temperature = 0.0 if rule is AcceptanceRule.GREEDY else 1.1
    return Sampler(Sampling(temperature=temperature, seed=seed), rule, seed, context, VOCABULARY)


def drafts(proposer: HybridProposer, context: Context, depth: int) -> tuple[bool, list[int]]:
    """Whether past text drafted (it alone has no probabilities to show), and the tokens."""
    proposal = proposer.propose(context, Budget(depth, depth))
    assert proposal.tree.is_chain
    return None in proposal.chosen_q, list(proposal.tree.tokens)


def test_text_that_repeats_itself_is_recalled_and_may_go_deeper_than_the_model() -> None:
    context = Context([*range(5), 4, 3, 2, 1, 0, 2, 4, *range(5), 4, 3, 2, 1])
    recalled, tokens = drafts(begin(context, neural_depth=2), context, 8)
    assert recalled
    assert tokens[:3] == [0, 2, 4]
    assert len(tokens) > 2


def test_a_suffix_that_expects_less_than_the_neural_draft_is_long_gives_way() -> None:
    context = Context([1, 2, 3, 1, 2])  # two tokens match: two right ones at the very most
    for neural_depth, recalled in ((1, True), (2, True), (3, False)):
        assert drafts(begin(context, neural_depth=neural_depth), context, 9)[0] == recalled
    assert drafts(begin(context, neural_depth=3), context, 2)[0]  # by the budget the other has two


def test_nothing_is_drafted_without_a_budget() -> None:
    context = Context([1, 2, 3, 1, 2])
    assert drafts(begin(context), context, 0) == (False, [])


def test_where_the_models_context_ends_past_text_goes_on() -> None:
    context = Context([1, 2, 3, 1, 2])
    draft = TableModel(table, VOCABULARY, context=len(context.tokens))
    proposer = proposers.create("hybrid", {"neural_depth": 4}, Resources(draft=draft))
    assert isinstance(proposer, HybridProposer)
    proposer.begin(context, sampler(context, AcceptanceRule.GREEDY))
    assert drafts(proposer, context, 9) == (True, [3, 1])


@settings(max_examples=60, deadline=None)
@given(
    prompt=texts,
    rounds=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2))),
    rule=st.sampled_from(RULES),
)
def test_after_rounds_of_either_the_neural_draft_is_that_of_a_fresh_start(
    prompt: list[int], rounds: list[tuple[int, int, int]], rule: AcceptanceRule
) -> None:
    context = Context(prompt)
    proposer = begin(context, rule, neural_depth=2)
    for depth, most, correction in rounds:
        _, tokens = drafts(proposer, context, depth)
        stand = min(most, len(tokens))
        context.tokens += [*tokens[:stand], correction]
        proposer.observe(Acceptance(tuple(range(stand)), correction, Origin.CORRECTION))
        neural = proposer.neural
        assert isinstance(neural, DraftModelProposer)
        reader = neural.reader
        assert isinstance(reader, SameVocabulary)
        assert reader.state.length == len(reader.tokens)  # type: ignore[attr-defined]
        assert reader.tokens == context.tokens[: len(reader.tokens)]
    fresh = begin(Context(context.tokens), rule)
    again, expected = (p.neural.propose(context, Budget(4, 4)) for p in (proposer, fresh))
    assert again.tree == expected.tree
    assert (again.q is None) == (expected.q is None)
    if again.q is not None and expected.q is not None:
        assert torch.equal(again.q, expected.q)


def generate(seed: int, limit: int) -> Iterator[Round]:
    target = Target(TableModel(table, VOCABULARY, context=64))
    context = Context([1, 2, 0, 1, 2])
    target.extend(context.tokens[:-1])
    chooser = sampler(context, AcceptanceRule.REJECTION, seed)
    proposer = begin(context, AcceptanceRule.REJECTION, seed, neural_depth=1)
    ending = StoppingCriteria(limit, ())
    launcher = HostLauncher(context, target, proposer, Verifier(chooser))
    return decode(context, launcher, Fixed(3), ending, "hybrid")


def test_rejection_leaves_the_targets_distribution_whoever_drafts() -> None:
    """Pairs of tokens against the exact product of p, over many seeds; both must have drafted."""
    length, runs = 3, 1000
    counts: Counter[tuple[int, ...]] = Counter()
    by_whom: Counter[bool] = Counter()
    for seed in range(runs):
        rounds = list(generate(seed, length + 1))
        output = [token for one in rounds for token in one.tokens[: one.emitted]]
        counts[tuple(output[:length])] += 1
        by_whom.update(None in one.q for one in rounds if len(one.tree))
    assert min(by_whom[True], by_whom[False]) > runs / 10
    expected = {}
    for text in itertools.product(range(VOCABULARY), repeat=length):
        p, tokens = 1.0, [1, 2, 0, 1, 2]
        for token in text:
            p *= float(torch.softmax(torch.tensor(table(tokens)) / 1.1, 0)[token])
            tokens.append(token)
        expected[text] = p * runs
    often = [text for text, count in expected.items() if count >= 5]
    observed = [counts[text] for text in often]
    wanted = [expected[text] for text in often]
    observed.append(runs - sum(observed))
    wanted.append(runs - sum(wanted))
    assert chi_square(observed, wanted) > 1e-3


def test_only_methods_with_a_model_can_be_the_neural_one() -> None:
    draft = Resources(draft=TableModel(table, VOCABULARY))
    assert "draft" in proposers.neural()
    for name in ("ngram", "none", "hybrid", "oracle"):
        with pytest.raises(InvalidRequest, match=f"neural is '{name}'; it must be one of draft"):
            proposers.check("hybrid", {"neural": name}, draft)


@pytest.mark.parametrize("depth", [0, 16])
def test_an_impossible_neural_depth_is_refused(depth: int) -> None:
    draft = Resources(draft=TableModel(table, VOCABULARY))
    with pytest.raises(InvalidRequest, match=f"neural_depth is {depth}; it must be 1 to 15"):
        proposers.check("hybrid", {"neural_depth": depth}, draft)


def test_the_suffixs_own_options_are_checked_as_its_own_are() -> None:
    draft = Resources(draft=TableModel(table, VOCABULARY))
    with pytest.raises(InvalidRequest, match="max_tree_depth is 1"):
        proposers.check("hybrid", {"max_tree_depth": 1}, draft)
