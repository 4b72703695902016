"""The acceptance kernel gives the tokens of ``engine.decoding.acceptance`` with the same noise."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton")

from engine.errors import ModelError
from engine.events import Tree
from engine.kernels.cuda.sampling.acceptance import Rule, draft
from engine.kernels.cuda.sampling.distribution import compute_distribution
from engine.kernels.cuda.sampling.state import SamplingState
from engine.noise import Stream, place_in_draft
from engine.values import MAX_DEPTH
from engine.values.sampling import Sampling
from tests.engine.kernels.cuda.rounds import Bench, logits_like
from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED, examples
from tests.support.chi_square import chi_square
from tests.support.sampling_references import draw_reference

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

CHANCE = [Rule.COUPLED, Rule.REJECTION, Rule.BLOCK]


def tempted(logits: torch.Tensor, drafted: list[int], by: float) -> torch.Tensor:
    """Raise the logit of each row's drafted token."""
    result = logits.clone()
    for row, token in enumerate(drafted):
        result[row, token] += by
    return result


@examples(14)
@given(
    rule=st.sampled_from(CHANCE),
    depth=st.sampled_from([0, 1, 2, 5, MAX_DEPTH]),
    vocabulary=st.sampled_from([1, 3, 37]),
    seed=st.integers(-(2**63), 2**64 - 1),
    sampled=st.booleans(),
    cut=st.sampled_from([{}, {"top_k": 4, "top_p": 0.9}, {"min_p": 0.1, "presence_penalty": 0.5}]),
)
def test_a_round_is_judged_as_by_the_torch_rule(
    rule: Rule, depth: int, vocabulary: int, seed: int, sampled: bool, cut: dict[str, float]
) -> None:
    """Compare token for token with the same noise; other tests enumerate the rules exactly."""
    bench = Bench(Sampling(temperature=0.8, **cut), seed, vocabulary, [0], [0])  # type: ignore[arg-type]
    of = seed % 1000
    drafted = [(of + 5 * i) % vocabulary for i in range(depth)]
    near = tempted(logits_like("ordinary", depth + 1, vocabulary, of) / 3, drafted, 3.0)
    far = near + 0.3 * logits_like("ordinary", depth + 1, vocabulary, of + 1)
    q = bench.distribution(far[:depth], drafted) if sampled and depth else None
    p = bench.distribution(near, drafted)
    dense = p.cpu()
    q_dense = None if q is None else q.cpu()
    expected = bench.expected_tokens(dense, q_dense, drafted, rule)
    outcome = bench.verify(p, q, rule, depth)
    assert outcome.tokens == expected
    assert outcome.accepted == len(expected) - 1
    assert outcome.chain == tuple(drafted)
    assert outcome.p == tuple(float(dense[i][x]) for i, x in enumerate(drafted))
    shown = [1.0 if q_dense is None else float(q_dense[i][x]) for i, x in enumerate(drafted)]
    assert outcome.q == tuple(shown)
    assert outcome.next_p == float(dense[outcome.accepted][expected[-1]])
    _check_moved_on(bench, expected)


@examples(20)
@given(
    rule=st.sampled_from([Rule.GREEDY, Rule.COUPLED]),
    nodes=st.sampled_from([1, 3, 8, MAX_DEPTH]),
    vocabulary=st.sampled_from([3, 37]),
    seed=st.integers(0, 2**64 - 1),
    reach=st.sampled_from([1, 2, 4]),
    cut=st.sampled_from([{}, {"top_k": 4}, {"presence_penalty": 0.5, "repetition_penalty": 1.3}]),
)
def test_a_tree_is_judged_as_by_the_torch_rule(
    rule: Rule, nodes: int, vocabulary: int, seed: int, reach: int, cut: dict[str, float]
) -> None:
    """``reach`` 1 is a chain that passes for a tree. Siblings may be the same token: the first counts."""
    bench = Bench(Sampling(temperature=0.8, **cut), seed, vocabulary, [0], [0])  # type: ignore[arg-type]
    of = seed % 1000
    parents = [node - 1 - (of + 3 * node) % min(node + 1, reach) for node in range(nodes)]
    tree = Tree(tuple((of + 5 * node) % vocabulary for node in range(nodes)), tuple(parents))
    logits = logits_like("ordinary", nodes + 1, vocabulary, of) / 3
    for parent, token in zip(tree.parents, tree.tokens, strict=True):
        logits[parent + 1, token] += 3.0
    greedy = rule is Rule.GREEDY
    p = bench.distribution(logits, tree, greedy=greedy)
    dense = p.cpu()
    if greedy:  # its p is that of temperature 1
        assert torch.equal(dense.argmax(-1), bench.adjusted(logits, tree).argmax(-1))
    else:
        assert (dense - bench.expected(logits, tree)).abs().amax() < 1e-5
    expected = bench.expected_tokens(dense, None, tree, rule)
    outcome = bench.verify(p, None, rule, nodes, tree=True)
    assert outcome.tokens == expected and outcome.chain == tree.tokens
    path = tree.path_of(expected[:-1])
    last = path[-1] + 1 if path else 0
    assert bench.state.accepted_rows[: len(expected)].tolist() == [0, *(node + 1 for node in path)]
    pairs = zip(tree.parents, tree.tokens, strict=True)
    assert outcome.p == tuple(float(dense[parent + 1][token]) for parent, token in pairs)
    assert outcome.next_p == float(dense[last][expected[-1]])
    _check_moved_on(bench, expected)


def test_only_broken_logits_on_the_accepted_path_end_a_tree() -> None:
    tree = Tree((1, 2, 3), (-1, -1, 1))
    logits = torch.zeros(4, 5)
    logits[0, 2] = logits[2, 3] = logits[3, 4] = 9.0
    for row, ends in ((1, False), (2, True), (3, True)):
        bench, broken = Bench(Sampling(), 0, 5, [0], []), logits.clone()
        broken[row] = float("nan")
        p = bench.distribution(broken, tree, greedy=True)
        if ends:
            with pytest.raises(ModelError):
                bench.verify(p, None, Rule.GREEDY, 3, tree=True)
        else:
            assert bench.verify(p, None, Rule.GREEDY, 3, tree=True).tokens == (2, 3, 4)


def _check_moved_on(bench: Bench, emitted: tuple[int, ...]) -> None:
    """Check that the state equals that of a new request with the longer text."""
    fresh = SamplingState.empty(bench.vocabulary, DEVICE)
    text = [*bench.text, *emitted]
    fresh.begin(bench.sampling, bench.seed, text, len(bench.prompt))
    assert torch.equal(bench.state.seed_and_length, fresh.seed_and_length)
    assert torch.equal(bench.state.token_counts, fresh.token_counts)


@pytest.mark.parametrize("vocabulary", [5, 2049, 4100])
@pytest.mark.parametrize("agreeing", [0, 3, 4])
def test_greedy_takes_the_first_of_the_likeliest(vocabulary: int, agreeing: int) -> None:
    bench = Bench(Sampling(), 0, vocabulary, [0], [])
    logits = logits_like("tied", 5, vocabulary, vocabulary)
    own = [int((row == row.max()).nonzero()[0]) for row in logits]
    drafted = [*own[:agreeing], *((x + 1) % vocabulary for x in own[agreeing:4])]
    p = bench.distribution(logits, drafted, greedy=True)
    outcome = bench.verify(p, None, Rule.GREEDY, 4)
    assert outcome.tokens == tuple(own[: agreeing + 1])
    shown = torch.softmax(logits[agreeing], dim=-1)[own[agreeing]]
    assert outcome.next_p == pytest.approx(float(shown), rel=1e-4)


def test_coupled_text_does_not_depend_on_depth_or_slot() -> None:
    """One by one, or verified in bursts of any length: the tokens of a seed stay the same."""
    sampling, vocabulary = Sampling(temperature=1.2, top_p=0.9, frequency_penalty=0.4), 30
    by_position = logits_like("ordinary", 40, vocabulary, 6)

    def text(depth: int, guess: list[int]) -> list[int]:
        bench, done = Bench(sampling, 11, vocabulary, [0], []), [0]
        while len(done) < 9:
            chain = guess[len(done) : len(done) + depth]
            rows = by_position[len(done) : len(done) + len(chain) + 1]
            bench.state.drafted[: len(chain)] = torch.tensor(chain, dtype=torch.int32)
            p = bench.distribution(rows, chain)
            done += bench.verify(p, None, Rule.COUPLED, len(chain)).tokens
        return done[:9]

    alone = text(0, [])
    wrong = [x if i % 3 else (x + 1) % vocabulary for i, x in enumerate(alone)]
    assert text(8, [*alone, *alone]) == alone
    assert text(3, [*wrong, *wrong]) == alone


@pytest.mark.parametrize("rule", list(Rule))
def test_draft_steps_build_the_chain_on_the_device(rule: Rule) -> None:
    """Each step is penalised for the tokens before it and draws with the noise of its position."""
    sampling = Sampling(temperature=1.0, presence_penalty=0.8)
    bench = Bench(sampling, 21, 50, [0], [3])
    before = bench.state.seed_and_length.clone(), bench.state.token_counts.clone()
    logits = logits_like("ordinary", 3, 50, 2)
    q, chain = torch.zeros(3, 50, device=DEVICE), []
    for place in range(3):
        row = q[place : place + 1]
        compute_distribution(
            logits[place : place + 1].to(DEVICE), bench.state, row,
            first=place, greedy=rule is Rule.GREEDY, truncates=False,
        )  # fmt: skip
        draft(row, bench.state, rule=rule, index=place)
        if rule is Rule.GREEDY:
            chain.append(int(bench.adjusted(logits, chain + [0] * 3)[place].argmax()))
        else:
            stream, at = Stream.DRAFT, place_in_draft(2, place)
            if rule is Rule.COUPLED:
                stream, at = Stream.CHOICE, 2 + place
            chain.append(draw_reference(q[place].cpu(), 21, stream, at))
    assert bench.state.drafted[:3].tolist() == chain
    assert torch.equal(bench.state.seed_and_length, before[0])
    assert torch.equal(bench.state.token_counts, before[1])


@pytest.mark.skipif(INTERPRETED, reason="thousands of rounds; the interpreter is too slow")
@pytest.mark.parametrize("rule", CHANCE)
def test_many_rounds_are_distributed_as_p(rule: Rule) -> None:
    """Chi-square of the first emitted token over 3,000 seeds, with a draft that is often wrong."""
    vocabulary, seeds = 12, 3000
    logits = logits_like("ordinary", 3, vocabulary, 3) / 2
    counts = [0] * vocabulary
    bench = Bench(Sampling(temperature=1.0), 0, vocabulary, [0], [])
    expected = torch.softmax(logits[0].double(), dim=-1) * seeds
    for seed in range(seeds):
        bench.state.begin(bench.sampling, seed, [0], 1)
        q = torch.zeros(2, vocabulary, device=DEVICE)
        for place in range(2):
            row = q[place : place + 1]
            wrong = logits[place + 1 : place + 2].to(DEVICE)
            compute_distribution(wrong, bench.state, row, first=place)
            draft(row, bench.state, rule=rule, index=place)
        p = bench.distribution(logits, [])
        counts[bench.verify(p, q, rule, 2).tokens[0]] += 1
    assert chi_square(counts, expected.tolist()) > 1e-4
