"""Draft trees: the worthiest nodes, each behind one that may carry it, and words that stay."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting.proposers.branches import BranchOptions, Level, candidates, grow
from engine.drafting.proposers.drawing import stream_of
from engine.events import Budget, Tree
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.fakes import TableModel


@st.composite
def levels(draw: st.DrawFn) -> list[Level]:
    """Candidates for up to four places, their probabilities falling and no two worths alike."""
    result = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 4))
        shares = draw(st.lists(st.floats(0.01, 1), min_size=count, max_size=count, unique=True))
        total = sum(shares) * draw(st.floats(1, 2))
        result.append(Level(range(count), [share / total for share in sorted(shares)[::-1]]))
    return result


def worths(tree: Tree, p: tuple[float | None, ...]) -> list[float]:
    result: list[float] = []
    for parent, own in zip(tree.parents, p, strict=True):
        assert own is not None
        result.append(own * (result[parent] if parent >= 0 else 1.0))
    return result


def every_path(tree_levels: list[Level], spread: bool) -> list[float]:
    """The worth of every branch that could be grown, best first."""
    result = []
    for depth in range(1, len(tree_levels) + 1):
        for ranks in itertools.product(
            *(range(len(level.tokens)) for level in tree_levels[:depth])
        ):
            if spread or not any(ranks[:-1]):
                result.append(math.prod(tree_levels[at].p[rank] for at, rank in enumerate(ranks)))
    return sorted(result, reverse=True)


@given(levels(), st.integers(0, 15), st.sampled_from([0.0, 0.05, 0.4]), st.booleans())
def test_the_worthiest_nodes_are_taken(
    tree_levels: list[Level], nodes: int, floor: float, spread: bool
) -> None:
    proposal = grow(tree_levels, nodes, floor, spread=spread)
    tree = proposal.tree
    result = worths(tree, proposal.chosen_q)
    possible = [worth for worth in every_path(tree_levels, spread) if worth >= floor]
    assert result == pytest.approx(possible[: min(nodes, len(possible))])
    branches = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(branches)) == len(branches)
    for parent, depth in zip(tree.parents, tree.depths, strict=True):
        if parent >= 0 and not spread:
            assert tree.tokens[parent] == tree_levels[depth - 2].tokens[0]


@given(levels(), st.integers(1, 14), st.booleans())
def test_a_smaller_tree_is_the_beginning_of_a_larger_one(
    tree_levels: list[Level], nodes: int, spread: bool
) -> None:
    smaller, larger = (
        grow(tree_levels, count, 0.0, spread=spread).tree for count in (nodes, nodes + 1)
    )
    assert larger.tokens[: len(smaller)] == smaller.tokens
    assert larger.parents[: len(smaller)] == smaller.parents


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_first_candidate_is_what_a_chain_would_draft(temperature: float) -> None:
    rule = AcceptanceRule.COUPLED if temperature else AcceptanceRule.GREEDY
    sampling = Sampling(temperature=temperature, top_k=5)
    sampler = Sampler(sampling, rule, 3, Context([1, 2]), 40)
    generator = torch.Generator().manual_seed(1)
    for position in range(20):
        logits = torch.randn(1, 40, generator=generator)
        p = sampler.probabilities(sampler.adjusted(logits, [()]))
        level = candidates(sampler, logits, (), position)
        (first,) = sampler.choose(logits, p, [position], stream_of(sampler))
        assert level.tokens[0] == first
        assert len(set(level.tokens)) == len(level.tokens) == (5 if temperature else 15)
        assert level.p == pytest.approx(p[0, list(level.tokens)].tolist())


def test_trees_are_drafted_where_they_can_be_verified() -> None:
    options = BranchOptions(8)
    target = Target(TableModel(lambda _: [0.0] * 4, 4, context=16))
    context = Context([1])
    greedy = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, 4)
    assert options.nodes(greedy, target, Budget(4, 15)) == 8
    assert options.nodes(greedy, target, Budget(4, 4)) == 4
    for rule in AcceptanceRule:
        drawn = Sampler(Sampling(temperature=1), rule, 0, context, 4)
        assert options.nodes(drawn, target, Budget(4, 15)) == (0 if rule.weighs_q else 8)
    target.extend([1] * 12)
    assert options.nodes(greedy, target, Budget(4, 15)) == 3  # 12 tokens, the pending one, 3
