"""Sampling against the same rules written naively in plain Python, and row by row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.decoding.context import Context
from engine.decoding.sampling import Sampler, truncated
from engine.noise import Stream
from engine.values.sampling import AcceptanceRule, Sampling, resolve_rule

SIZE = 8
# Few distinct values, so that ties are common.
logit_rows = st.lists(st.integers(-4, 4).map(lambda n: n / 2), min_size=SIZE, max_size=SIZE)
token_lists = st.lists(st.integers(0, SIZE - 1), max_size=6)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 2, 3, 5, 8, 50]),
    top_p=st.sampled_from([1.0, 0.95, 0.8, 0.5, 0.11, 0.001]),
    min_p=st.sampled_from([0.0, 0.03, 0.2, 0.9]),
)
penalties = st.builds(
    Sampling,
    temperature=st.just(1.0),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    presence_penalty=st.sampled_from([0.0, 0.6, -1.1]),
    frequency_penalty=st.sampled_from([0.0, 0.4, -0.3]),
)


def sampler(
    sampling: Sampling, context: Context | None = None, vocabulary: int = SIZE, seed: int = 0
) -> Sampler:
    return Sampler(sampling, AcceptanceRule.COUPLED, seed, context or Context([0]), vocabulary)


def naive_softmax(logits: list[float], temperature: float) -> list[float]:
    powers = [math.exp((value - max(logits)) / temperature) for value in logits]
    return [power / sum(powers) for power in powers]


def naive_cuts(
    p: list[float], sampling: Sampling, require: Callable[[bool], object] = assume
) -> list[float]:
    """Top-k, top-p, min-p; requires that no cut falls within rounding of a value."""

    def keep_from(threshold: float) -> list[float]:
        kept = [value if value >= threshold - 1e-9 else 0.0 for value in p]
        return [value / sum(kept) for value in kept]

    if 0 < sampling.top_k < len(p):
        p = keep_from(sorted(p, reverse=True)[sampling.top_k - 1])
    if sampling.top_p < 1:
        mass, threshold = 0.0, 1.0
        for value in sorted(p, reverse=True):
            require(abs(mass - sampling.top_p) > 1e-5)
            if mass < sampling.top_p:
                threshold = value
            mass += value
        p = keep_from(threshold)
    if sampling.min_p:
        edge = max(p) * sampling.min_p
        require(all(abs(value - edge) > 1e-5 for value in p))
        p = keep_from(edge)
    return p


def naive_penalties(
    logits: list[float], sampling: Sampling, prompt: list[int], output: list[int]
) -> list[float]:
    result, times = list(logits), Counter(output)
    for token in set(prompt + output):
        factor = sampling.repetition_penalty
        result[token] = result[token] / factor if result[token] > 0 else result[token] * factor
    for token, count in times.items():
        result[token] -= sampling.presence_penalty + count * sampling.frequency_penalty
    return result


@settings(max_examples=150, deadline=None)
@given(logits=logit_rows, sampling=samplings)
def test_probabilities_are_the_rules_written_naively(
    logits: list[float], sampling: Sampling
) -> None:
    expected = naive_cuts(naive_softmax(logits, sampling.temperature), sampling)
    p = sampler(sampling).probabilities(torch.tensor([logits]))[0].tolist()
    assert p == pytest.approx(expected, abs=1e-5)
    assert [value > 0 for value in p] == [value > 0 for value in expected]


@settings(max_examples=100, deadline=None)
@given(
    logits=logit_rows,
    sampling=penalties,
    prompt=token_lists,
    output=token_lists,
    drafted=token_lists,
)
def test_penalties_are_the_rules_written_naively(
    logits: list[float],
    sampling: Sampling,
    prompt: list[int],
    output: list[int],
    drafted: list[int],
) -> None:
    context = Context(prompt)
    context.tokens += output
    adjusted = sampler(sampling, context).adjusted(torch.tensor([logits]), [drafted])
    expected = naive_penalties(logits, sampling, prompt, output + drafted)
    assert adjusted[0].tolist() == pytest.approx(expected, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(sampling=penalties, prompt=token_lists, tokens=token_lists, seed=st.integers(0, 99))
def test_a_drafted_token_is_penalised_bit_for_bit_like_one_in_the_text(
    sampling: Sampling, prompt: list[int], tokens: list[int], seed: int
) -> None:
    """Verified in one burst or decoded one by one: the same logits, whatever the arithmetic."""
    row = torch.randn(1, SIZE, generator=torch.Generator().manual_seed(seed))
    drafting, growing = Context(prompt), Context(prompt)
    ahead, behind = sampler(sampling, drafting), sampler(sampling, growing)
    for end in range(len(tokens) + 1):
        growing.tokens[len(prompt) :] = tokens[:end]
        assert torch.equal(behind.adjusted(row, [()]), ahead.adjusted(row, [tokens[:end]]))


@pytest.mark.parametrize("cut", [{"top_k": 2}, {"top_p": 0.5}, {"min_p": 1 - 1e-6}])
def test_tied_tokens_stay_or_go_together(cut: dict[str, float]) -> None:
    p = torch.tensor([[0.1, 0.25, 0.25, 0.05, 0.25, 0.1]])
    kept = truncated(p, Sampling(temperature=1.0, **cut))  # type: ignore[arg-type]
    assert (kept[0] > 0).tolist() == [False, True, True, False, True, False]
    assert kept.sum().item() == pytest.approx(1.0)


def nearly_flat(tokens: int) -> Tensor:
    return torch.softmax(torch.linspace(0.0, 1e-2, tokens), dim=-1)


def test_top_p_of_a_flat_distribution_needs_the_whole_vocabulary() -> None:
    """The likeliest 256 tokens hold too little; then all are ranked."""
    p = nearly_flat(1000)
    kept = truncated(p[None], Sampling(temperature=1.0, top_p=0.9004))[0]
    expected = naive_cuts(p.double().tolist(), Sampling(temperature=1.0, top_p=0.9004), bool)
    assert 895 <= int((kept > 0).sum()) <= 900
    assert kept.tolist() == pytest.approx(expected, abs=1e-6)


def test_a_row_that_needs_the_whole_vocabulary_changes_no_other_row() -> None:
    steep = torch.softmax(torch.linspace(0.0, 40.0, 1000), dim=-1)
    # Just about full after 256 tokens: the row where a float32 sum and a float64 sum may disagree.
    edge = torch.cat([torch.full((256,), 0.9 / 256), torch.full((744,), 0.1 / 744)])
    rows = torch.stack([steep, nearly_flat(1000), edge])
    for top_p in (0.5, float(edge[:256].sum()), 0.9, 0.999):
        sampling = Sampling(temperature=1.0, top_p=top_p)
        together = truncated(rows, sampling)
        for index in range(3):
            assert torch.equal(truncated(rows[index : index + 1], sampling)[0], together[index])


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("vocabulary", [50, 40_000])
@pytest.mark.parametrize(
    "cuts",
    [{}, {"min_p": 0.02}, {"top_k": 300, "top_p": 0.95}],
    ids=str,
)
def test_rows_alone_and_together_have_the_same_bits(
    vocabulary: int, cuts: dict[str, float]
) -> None:
    """Above 32,768 tokens torch splits the sum of one row among threads, but not that of several."""
    sampling = Sampling(temperature=0.8, repetition_penalty=1.1, **cuts)  # type: ignore[arg-type]
    context = Context(range(10))
    verifier = sampler(sampling, context, vocabulary, seed=4)
    logits = 3 * torch.randn(6, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    drafted = [list(range(20, 20 + row)) for row in range(6)]
    adjusted = verifier.adjusted(logits, drafted)
    p = verifier.probabilities(adjusted)
    chosen = verifier.choose(adjusted, p, range(10, 16), Stream.CHOICE)
    for row in range(6):
        one = verifier.adjusted(logits[row : row + 1], [drafted[row]])
        one_p = verifier.probabilities(one)
        assert torch.equal(one[0], adjusted[row])
        assert torch.equal(one_p[0], p[row])
        assert verifier.choose(one, one_p, [10 + row], Stream.CHOICE) == [chosen[row]]


@pytest.mark.parametrize("width", [SIZE - 3, SIZE + 3])
def test_rows_of_another_width_become_the_targets_vocabulary(width: int) -> None:
    """Embedding rows padded to a round number differ between models with one tokenizer."""
    adjusted = sampler(Sampling(temperature=1.0)).adjusted(torch.zeros(2, width), [(), ()])
    assert adjusted.shape == (2, SIZE)
    p = sampler(Sampling(temperature=1.0)).probabilities(adjusted)
    assert (p[0] > 0).tolist() == [index < width for index in range(SIZE)]


@given(logits=logit_rows)
def test_temperature_0_takes_the_first_of_the_likeliest(logits: list[float]) -> None:
    greedy = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, Context([0]), SIZE)
    row = torch.tensor([logits])
    chosen = greedy.choose(row, greedy.probabilities(row), [1], Stream.CHOICE)
    assert chosen == [logits.index(max(logits))]


@pytest.mark.parametrize("rule", list(AcceptanceRule))
@pytest.mark.parametrize("temperature", [0.0, 1e-40, 1e-6])
def test_the_coldest_temperatures_are_greedy(rule: AcceptanceRule, temperature: float) -> None:
    """Below 1e-38 logits / temperature overflows, and every probability would be NaN."""
    assert resolve_rule(rule, temperature) is AcceptanceRule.GREEDY


def test_auto_is_coupled_and_a_named_rule_stays() -> None:
    assert resolve_rule(AcceptanceRule.AUTO, 0.7) is AcceptanceRule.COUPLED
    assert resolve_rule(AcceptanceRule.REJECTION, 0.7) is AcceptanceRule.REJECTION
    assert resolve_rule(AcceptanceRule.GREEDY, 0.7) is AcceptanceRule.GREEDY


@pytest.mark.parametrize("temperature", [1e-5, 0.01, 5.0])
def test_probabilities_stay_finite_at_every_temperature(temperature: float) -> None:
    sampling = Sampling(temperature=temperature, top_p=0.9, min_p=0.1)
    p = sampler(sampling).probabilities(torch.linspace(-80.0, 80.0, SIZE)[None])
    assert bool(p.isfinite().all()) and p.sum().item() == pytest.approx(1.0)
