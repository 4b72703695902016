"""The acceptance rules, checked exactly: the output is p for any q, by enumeration."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.decoding.acceptance import (
    Acceptance,
    accept_matching,
    accept_probability,
    block_chances,
    block_scales,
    rejection_sample,
    residual,
    verify_block,
)
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.verifier import Verifier
from engine.drafting.proposers.drawing import Chain, Floors
from engine.events import Origin, Tree
from engine.noise import Stream, sample
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.chi_square import chi_square

VOCABULARY = 3
DEPTH = 2

weights = st.lists(st.integers(0, 6), min_size=VOCABULARY, max_size=VOCABULARY).filter(any)


def normalised(values: list[int]) -> Tensor:
    row = torch.tensor(values, dtype=torch.float64)
    return row / row.sum()


class Branch(Exception):
    """Raised by a scripted source of chance when its script ends: explore both ways."""

    def __init__(self, options: list[tuple[object, float]]) -> None:
        self.options = options


Rule = Callable[..., Acceptance]
RULES: tuple[Rule, ...] = (rejection_sample, verify_block)


def chance_of(rule: Rule, p: Tensor, q: Tensor | None, tree: Tree, node: int) -> float:
    """Where the coin of a node is cut. A wrong cut would show in what comes out."""
    if rule is rejection_sample:
        return accept_probability(p[node], None if q is None else q[node], tree.tokens[node])
    return block_chances(p, q, tree.tokens, block_scales(p, q, tree.tokens))[node]


def outcomes(
    p: Tensor, q: Tensor | None, tree: Tree, rule: Rule = rejection_sample
) -> dict[tuple[int, ...], float]:
    """Every sequence the real rule can return, with its exact probability.

    All chance goes through ``uniform`` and ``draw``; both are replaced by exhaustive branching.
    """
    found: dict[tuple[int, ...], float] = defaultdict(float)
    open_scripts: list[tuple[list[object], float]] = [([], 1.0)]
    while open_scripts:
        script, probability = open_scripts.pop()
        left = list(script)

        def uniform(node: int, left: list[object] = left) -> float:
            chance = chance_of(rule, p, q, tree, node)
            if not left:
                raise Branch([(chance / 2, chance), ((1 + chance) / 2, 1 - chance)])
            return float(left.pop(0))  # type: ignore[arg-type]

        def draw(row: Tensor, node: int, is_residual: bool, left: list[object] = left) -> int:
            if not left:
                shares = (row / row.sum()).tolist()
                raise Branch(list(enumerate(shares)))
            return int(left.pop(0))  # type: ignore[call-overload]

        try:
            verdict = rule(p, q, tree, uniform, draw)
        except Branch as branch:
            open_scripts += [
                ([*script, choice], probability * share)
                for choice, share in branch.options
                if share > 0
            ]
        else:
            accepted = [tree.tokens[node] for node in verdict.path]
            found[(*accepted, verdict.next_token)] += probability
    return found


def first_token_marginals(sequences: dict[tuple[int, ...], float]) -> list[float]:
    totals = [0.0] * VOCABULARY
    for sequence, probability in sequences.items():
        totals[sequence[0]] += probability
    return totals


@pytest.mark.parametrize("rule", RULES)
@given(p=weights, q=weights)
def test_one_sampled_draft_leaves_exactly_p(rule: Rule, p: list[int], q: list[int]) -> None:
    target, draft = normalised(p), normalised(q)
    rows = torch.stack([target, target])
    totals = [0.0] * VOCABULARY
    for token, share in enumerate(draft.tolist()):
        if share:
            marginal = first_token_marginals(outcomes(rows, draft[None], Tree.chain([token]), rule))
            totals = [a + share * b for a, b in zip(totals, marginal, strict=True)]
    assert totals == pytest.approx(target.tolist(), abs=1e-12)


@pytest.mark.parametrize("rule", RULES)
@given(p=weights, token=st.integers(0, VOCABULARY - 1))
def test_one_certain_draft_leaves_exactly_p(rule: Rule, p: list[int], token: int) -> None:
    target = normalised(p)
    rows = torch.stack([target, target])
    marginal = first_token_marginals(outcomes(rows, None, Tree.chain([token]), rule))
    assert marginal == pytest.approx(target.tolist(), abs=1e-12)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25, deadline=None)
@given(
    tables=st.lists(weights, min_size=2 * (1 + VOCABULARY), max_size=2 * (1 + VOCABULARY)),
    sampled=st.booleans(),
)
def test_two_drafts_leave_the_joint_distribution(
    rule: Rule, tables: list[list[int]], sampled: bool
) -> None:
    """Both models are Markov chains; sequences of two tokens must be distributed as the target's."""
    rows = [normalised(table) for table in tables]
    p_first, p_after = rows[0], rows[1 : 1 + VOCABULARY]
    q_first, q_after = rows[1 + VOCABULARY], rows[2 + VOCABULARY :]
    joint: dict[tuple[int, int], float] = defaultdict(float)
    for drafted in itertools.product(range(VOCABULARY), repeat=DEPTH):
        share = float(q_first[drafted[0]] * q_after[drafted[0]][drafted[1]])
        if not sampled:
            share = float(drafted == (1, 2))
        if not share:
            continue
        p = torch.stack([p_first, p_after[drafted[0]], p_after[drafted[1]]])
        q = torch.stack([q_first, q_after[drafted[0]]]) if sampled else None
        for sequence, probability in outcomes(p, q, Tree.chain(drafted), rule).items():
            # A round that ends after one token is continued by the target itself.
            for second in range(VOCABULARY):
                if len(sequence) > 1 and sequence[1] != second:
                    continue
                rest = 1.0 if len(sequence) > 1 else float(p_after[sequence[0]][second])
                joint[(sequence[0], second)] += share * probability * rest
    for first, second in itertools.product(range(VOCABULARY), repeat=2):
        expected = float(p_first[first] * p_after[first][second])
        assert joint[(first, second)] == pytest.approx(expected, abs=1e-12)


def test_a_residual_of_equal_rows_falls_back_to_p() -> None:
    """p - q is empty when both agree; rounding may still have rejected."""
    p = torch.tensor([0.5, 0.5, 0.0])
    assert torch.equal(residual(p, p.clone(), 0), p)


@settings(max_examples=25, deadline=None)
@given(
    tables=st.lists(weights, min_size=2 * (1 + VOCABULARY), max_size=2 * (1 + VOCABULARY)),
)
def test_block_verification_keeps_no_fewer_drafts_on_average(tables: list[list[int]]) -> None:
    """Theorem 2 of the paper, over every chain that the draft can make."""
    rows = [normalised(table) for table in tables]
    p_first, p_after = rows[0], rows[1 : 1 + VOCABULARY]
    q_first, q_after = rows[1 + VOCABULARY], rows[2 + VOCABULARY :]
    kept = dict.fromkeys(RULES, 0.0)
    for drafted in itertools.product(range(VOCABULARY), repeat=DEPTH):
        share = float(q_first[drafted[0]] * q_after[drafted[0]][drafted[1]])
        p = torch.stack([p_first, p_after[drafted[0]], p_after[drafted[1]]])
        q = torch.stack([q_first, q_after[drafted[0]]])
        for rule in RULES:
            for sequence, probability in outcomes(p, q, Tree.chain(drafted), rule).items():
                kept[rule] += share * probability * (len(sequence) - 1)
    assert kept[verify_block] >= kept[rejection_sample] - 1e-9


def test_block_verification_may_keep_what_rejection_would_not() -> None:
    """The paper's example: p = (1/3, 2/3), q = (2/3, 1/3), two drafts; 11/9 kept against 10/9."""
    p, q = torch.tensor([1, 2]) / 3, torch.tensor([2, 1]) / 3
    rows = p.double().expand(3, 2), q.double().expand(2, 2)
    kept = dict.fromkeys(RULES, 0.0)
    for drafted in itertools.product(range(2), repeat=2):
        share = float(q[drafted[0]] * q[drafted[1]])
        for rule in RULES:
            for sequence, probability in outcomes(*rows, Tree.chain(drafted), rule).items():
                kept[rule] += share * probability * (len(sequence) - 1)
    assert kept[rejection_sample] == pytest.approx(10 / 9, abs=1e-6)
    assert kept[verify_block] == pytest.approx(11 / 9, abs=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_chance_refuse_a_tree_with_branches(rule: Rule) -> None:
    tree = Tree((1, 2), (-1, -1))
    with pytest.raises(ValueError, match="chain"):
        rule(torch.eye(3), None, tree, lambda _: 0.5, lambda *_: 0)


@given(
    choices=st.lists(st.integers(0, 2), min_size=5, max_size=5),
    drafted=st.lists(st.integers(0, 2), max_size=4),
)
def test_following_a_chain_gives_the_longest_agreeing_prefix(
    choices: list[int], drafted: list[int]
) -> None:
    verdict = accept_matching(choices[: len(drafted) + 1], Tree.chain(drafted))
    agreed = 0
    while agreed < len(drafted) and drafted[agreed] == choices[agreed]:
        agreed += 1
    assert verdict.path == tuple(range(agreed))
    assert verdict.next_token == choices[agreed]
    assert verdict.origin is (Origin.BONUS if agreed == len(drafted) else Origin.CORRECTION)


def test_following_a_tree_takes_the_branch_the_target_chose() -> None:
    #   pending -> 5 -> 7
    #           -> 6 -> 8
    tree = Tree((5, 6, 7, 8), (-1, -1, 0, 1))
    verdict = accept_matching((6, 0, 8, 0, 9), tree)
    assert (verdict.path, verdict.next_token, verdict.origin) == ((1, 3), 9, Origin.BONUS)


def judged(rule: AcceptanceRule, p: Tensor, drafted: list[int], q: Tensor | None, seed: int) -> int:
    """The first token that comes out of a whole round, logits in, for temperature 1."""
    context = Context([0, 0])
    sampler = Sampler(Sampling(temperature=1.0), rule, seed, context, p.shape[1])
    proposal = DraftProposal(Tree.chain(drafted), q, (None,) * len(drafted))
    acceptance = Verifier(sampler)(p.log(), proposal, context).acceptance
    return drafted[0] if acceptance.path else acceptance.next_token


@dataclass(frozen=True)
class Unwritten:
    """A rule of which nothing else is known."""

    weighs_q: bool


def test_a_rule_that_nobody_wrote_is_not_taken_for_another() -> None:
    p = torch.tensor([[0.5, 0.5]] * 2)
    for rule in AcceptanceRule:
        if rule.weighs_q:
            assert judged(rule, p, [0], p[:1], 3) == 0, "p is q: what was drafted stands"
    for unknown in (Unwritten(True), Unwritten(False), AcceptanceRule.AUTO):
        with pytest.raises(ValueError, match="no acceptance rule"):
            judged(unknown, p, [0], p[:1], 3)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(p=weights, drafted=st.integers(0, 2), seed=st.integers(0, 2**63))
def test_coupled_output_is_the_targets_own_sample_for_every_draft_and_seed(
    p: list[int], drafted: int, seed: int
) -> None:
    """Enumerates what can be drafted: nothing, and each token; the outcome never changes."""
    row = normalised(p).float()
    own = int(sample(row[None], seed, Stream.CHOICE, (2,)))
    rows = torch.stack([row, row])
    for draft in ([], [0], [1], [2], [drafted]):
        assert judged(AcceptanceRule.COUPLED, rows[: len(draft) + 1], draft, None, seed) == own


@pytest.mark.parametrize(
    "rule", [AcceptanceRule.COUPLED, AcceptanceRule.REJECTION, AcceptanceRule.BLOCK]
)
@pytest.mark.parametrize("sampled", [False, True])
def test_a_larger_vocabulary_is_distributed_as_p(rule: AcceptanceRule, sampled: bool) -> None:
    """Chi-square over the real noise: 800 seeds, 40 tokens, a draft that is often wrong."""
    generator = torch.Generator().manual_seed(5)
    p, q = torch.softmax(2 * torch.randn(2, 40, generator=generator), dim=-1)
    counts = [0] * 40
    seeds = 800
    stream = Stream.DRAFT if rule.weighs_q else Stream.CHOICE
    for seed in range(seeds):
        drafted = 3
        if sampled:
            drafted = int(sample(q[None], seed, stream, (2,)))
        shown = q[None] if sampled else None
        counts[judged(rule, torch.stack([p, p]), [drafted], shown, seed)] += 1
    expected = (p.double() / p.double().sum() * seeds).tolist()
    rare = [index for index, value in enumerate(expected) if value < 5]
    kept = [index for index in range(40) if index not in rare]
    observed = [counts[i] for i in kept] + [sum(counts[i] for i in rare)]
    wanted = [expected[i] for i in kept] + [sum(expected[i] for i in rare)]
    assert chi_square(observed, wanted) > 1e-4


@pytest.mark.parametrize("rule", [AcceptanceRule.REJECTION, AcceptanceRule.BLOCK])
def test_what_follows_a_rejection_is_distributed_as_p(rule: AcceptanceRule) -> None:
    """Chi-square of the first two tokens over 1,000 seeds, in as many rounds as they take.

    Block verification looks at the coins and tokens of a whole draft. The next round drew and judged with
    the same noise again, and its tokens were biased.
    """
    p, q = torch.tensor([0.5, 0.5, 0.0]).log(), torch.tensor([0.9, 0.05, 0.05]).log()
    seeds, counts = 1000, [0] * 4
    for seed in range(seeds):
        context = Context([0])
        sampler = Sampler(Sampling(temperature=1.0, seed=seed), rule, seed, context, 3)
        verifier = Verifier(sampler)
        while context.generated < 2:
            chain = Chain(sampler, len(context.tokens), Floors())
            chain.draw_all(q.repeat(2, 1))
            proposal = chain.proposal()
            verdict = verifier(p.repeat(3, 1), proposal, context).acceptance
            context.tokens += [
                *(proposal.tree.tokens[at] for at in verdict.path),
                verdict.next_token,
            ]
        first, second, *_ = context.output
        counts[2 * first + second] += 1
    assert chi_square(counts, [seeds / 4] * 4) > 1e-4
