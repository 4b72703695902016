"""The sampling kernels compared with their torch references, and with the engine's sampling."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton")

import triton
import triton.language as tl

from engine import noise
from engine.decoding.sampling import truncated
from engine.errors import InvalidRequest, ModelError
from engine.kernels.cuda.sampling import arithmetic
from engine.kernels.cuda.sampling.acceptance import Rule
from engine.kernels.cuda.sampling.distribution import truncate
from engine.values import MAX_ROWS
from engine.values.sampling import Sampling
from tests.engine.kernels.cuda.rounds import Bench, logits_like, samplings
from tests.engine.kernels.cuda.where import DEVICE, examples
from tests.support.sampling_references import (
    exponential_reference,
    truncated_reference,
    weights_reference,
)

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

KINDS = ["ordinary", "tied", "flat", "extreme", "impossible"]
vocabularies = st.sampled_from([1, 2, 7, 37, 333, 2047, 2049])
seeds = st.integers(-(2**63), 2**64 - 1)


@triton.jit
def probe(
    numbers: tl.tensor, clocks: tl.tensor, coin: tl.tensor, STREAM: tl.constexpr, SIZE: tl.constexpr
) -> None:
    """Run the arithmetic alone: noise of each token, and a uniform number."""
    each = tl.arange(0, SIZE)
    stream = tl.full([], STREAM, tl.uint64)
    key = arithmetic.noise_key(tl.load(numbers), stream, tl.load(numbers + 1))
    tl.store(clocks + each, arithmetic.exponential(key, each))
    tl.store(coin, arithmetic.uniform(key))


@pytest.mark.parametrize(("seed", "position"), [(0, 0), (-5, 77), (2**64 - 1, 2**40)])
def test_noise_has_the_bits_of_its_torch_twin(seed: int, position: int) -> None:
    size, stream = 32768, noise.Stream.RESIDUAL
    signed = seed if seed < 2**63 else seed - 2**64
    numbers = torch.tensor([signed, position], device=DEVICE)
    clocks = torch.empty(size, device=DEVICE)
    coin = torch.empty(1, dtype=torch.float64, device=DEVICE)
    probe[(1,)](numbers, clocks, coin, STREAM=int(stream), SIZE=size, enable_fp_fusion=False)
    expected = exponential_reference(seed, stream, (position,), size)[0]
    assert torch.equal(clocks.cpu(), expected)
    assert coin.item() == noise.uniform(seed, stream, position)


@examples(14)
@given(
    sampling=samplings,
    kind=st.sampled_from(KINDS),
    rows=st.integers(1, 3),
    vocabulary=vocabularies,
    masked=st.booleans(),
    biased=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_distribution_is_that_of_the_torch_rules(
    sampling: Sampling, kind: str, rows: int, vocabulary: int, masked: bool, biased: bool, seed: int
) -> None:
    """Biases and penalties by the engine's sampler, truncation by sorting: the same tokens stay."""
    prompt, output = [0, seed % vocabulary], [(seed * 7) % vocabulary, 0]
    bias = {0: 1.3, seed % vocabulary: -100.0, (seed + 1) % vocabulary: 2.7} if biased else {}
    bench = Bench(sampling, seed, vocabulary, prompt, output, tuple(bias.items()))
    logits = logits_like(kind, rows, vocabulary, seed)
    if seed % 3 == 0:
        logits = logits.bfloat16()
    allowed = None
    if masked:
        allowed = torch.rand(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) < 0.6
        allowed |= logits == logits.amax(-1, keepdim=True)
        allowed[:, 0] = True
    drafted = [(seed + 3 * i) % vocabulary for i in range(rows - 1)]
    found = bench.distribution(logits, drafted, allowed).cpu()
    expected = bench.expected(logits, drafted, allowed)
    assert torch.equal(found > 1e-30, expected > 1e-30)
    assert torch.allclose(found, expected, rtol=2e-5, atol=1e-30)


@examples(20)
@given(sampling=samplings, kind=st.sampled_from(KINDS), vocabulary=vocabularies, seed=seeds)
def test_truncation_has_the_bits_of_its_torch_twin(
    sampling: Sampling, kind: str, vocabulary: int, seed: int
) -> None:
    """Of equal weights, the same stay; the mass is their sum in integers."""
    weights = weights_reference(logits_like(kind, 3, vocabulary, seed % 2**32))
    found, mass = truncate(weights.to(DEVICE), Bench(sampling, 0, vocabulary, [0], []).state)
    expected = truncated_reference(weights, sampling)
    assert torch.equal(found.cpu(), expected)
    assert torch.equal(mass.cpu(), expected.long().sum(-1, keepdim=True))


@pytest.mark.parametrize(
    "truncation",
    [{"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.05}, {"top_k": 40, "top_p": 0.9, "min_p": 0.02}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["ordinary", "tied"])
def test_the_kept_tokens_are_those_of_the_engines_sampling(
    kind: str, truncation: dict[str, float]
) -> None:
    """Compare with ``engine.decoding.sampling``, ties included; no threshold here is within rounding."""
    sampling = Sampling(temperature=0.7, **truncation)  # type: ignore[arg-type]
    bench = Bench(sampling, 0, 501, [0], [])
    logits = logits_like(kind, 2, 501, 4)
    found = bench.distribution(logits, [1]).cpu()
    p = torch.softmax(logits / 0.7, dim=-1)
    expected = truncated(p, sampling)
    assert torch.equal(found > 0, expected > 0)
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_a_row_has_the_same_bits_alone_and_in_every_slot() -> None:
    """So the token of a position does not depend on the number of drafted tokens."""
    row = logits_like("ordinary", 1, 301, 8)
    for sampling in (Sampling(temperature=0.9), Sampling(temperature=0.9, top_k=60, top_p=0.9)):
        alone = Bench(sampling, 0, 301, [0], []).distribution(row, [])
        for rows in (2, MAX_ROWS):
            beside = logits_like("flat", rows, 301, 9)
            beside[1::2] = row
            found = Bench(sampling, 0, 301, [0], []).distribution(beside, [1] * (rows - 1))
            assert torch.equal(found[1::2], alone.expand(rows // 2, -1))


def test_a_second_round_finds_nothing_of_the_first() -> None:
    bench = Bench(Sampling(temperature=1.0, top_k=30, top_p=0.9), 3, 100, [0], [])
    logits = logits_like("ordinary", 2, 100, 1)
    first = bench.distribution(logits, [5])
    bench.distribution(logits_like("flat", 2, 100, 2), [5])
    assert torch.equal(bench.distribution(logits, [5]), first)


@pytest.mark.parametrize("rule", list(Rule))
@pytest.mark.parametrize(
    ("value", "message"), [(torch.nan, "NaN"), (torch.inf, "NaN"), (-torch.inf, "grammar")]
)
def test_broken_rows_are_refused(rule: Rule, value: float, message: str) -> None:
    bench = Bench(Sampling(temperature=1.0, top_k=3, top_p=0.5), 0, 40, [0], [])
    logits = logits_like("ordinary", 1, 40, 1)
    logits[0, 17:18] = value
    if value == -torch.inf:
        logits[:] = value
    p = bench.distribution(logits, [], greedy=rule is Rule.GREEDY)
    with pytest.raises((ModelError, InvalidRequest), match=message):
        bench.verify(p, None, rule, 0)
