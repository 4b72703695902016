"""Noise is a pure function of (seed, stream, position, token), and it is distributed as it says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.noise import Stream, exponential, sample, uniform
from tests.support.chi_square import chi_square

seeds = st.integers(-(2**63), 2**64 - 1)
streams = st.sampled_from(list(Stream))
MASK = 2**64 - 1


def mixed(x: int) -> int:
    """SplitMix64's finaliser on plain integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def naive_exponential(seed: int, stream: int, position: int, token: int) -> float:
    step = 0x9E3779B97F4A7C15
    key = mixed(((seed & MASK) + step) & MASK)
    key = mixed(((key ^ stream) + step) & MASK)
    key = mixed(((key ^ position) + step) & MASK)
    bits = mixed((key + (token + 1) * step) & MASK) >> 12
    return -math.log((bits + 0.5) / 2**52)


@settings(max_examples=50, deadline=None)
@given(
    seed=seeds, stream=streams, positions=st.lists(st.integers(0, 2**20), min_size=1, max_size=4)
)
def test_tensor_noise_is_the_hash_written_out(
    seed: int, stream: Stream, positions: list[int]
) -> None:
    noise = exponential(seed, stream, positions, 5)
    expected = [
        [naive_exponential(seed, stream, position, token) for token in range(5)]
        for position in positions
    ]
    assert noise.tolist() == [pytest.approx(row, rel=1e-12) for row in expected]


def test_a_position_is_drawn_the_same_alone_and_among_others() -> None:
    together = exponential(7, Stream.CHOICE, range(40, 56), 300)
    for row, position in enumerate(range(40, 56)):
        assert torch.equal(exponential(7, Stream.CHOICE, (position,), 300)[0], together[row])


def test_noise_is_positive_and_finite_even_at_the_ends_of_the_hash() -> None:
    """53 bits and a half round up to 1; its logarithm is 0, and 0 / 0 would win every race."""
    assert 0.0 < (0 + 0.5) * 2.0**-52 < ((2**52 - 1) + 0.5) * 2.0**-52 < 1.0
    noise = exponential(3, Stream.DRAFT, range(100), 1000)
    assert bool((noise > 0).all()) and bool(noise.isfinite().all())


def test_noise_is_exponential_and_uniform() -> None:
    from scipy.stats import kstest  # a second, which the other test processes do without

    noise = exponential(11, Stream.CHOICE, range(20), 500).flatten().numpy()
    assert kstest(noise, "expon").pvalue > 1e-4
    draws = [uniform(11, Stream.ACCEPT, position) for position in range(5000)]
    assert kstest(draws, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("what", ["seed", "stream", "position"])
def test_neighbouring_keys_are_not_correlated(what: str) -> None:
    for step in range(1, 4):
        first = exponential(1, Stream.CHOICE, (0,), 20_000)[0]
        other = {
            "seed": exponential(1 + step, Stream.CHOICE, (0,), 20_000),
            "stream": exponential(1, Stream(1 + step), (0,), 20_000),
            "position": exponential(1, Stream.CHOICE, (step,), 20_000),
        }[what][0]
        assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.035


def test_equal_keys_repeat_and_signed_seeds_wrap() -> None:
    assert uniform(5, Stream.ACCEPT, 9) == uniform(5, Stream.ACCEPT, 9)
    assert uniform(-1, Stream.ACCEPT, 9) == uniform(2**64 - 1, Stream.ACCEPT, 9)


@settings(max_examples=40, deadline=None)
@given(
    weights=st.lists(
        st.lists(st.integers(0, 5), min_size=6, max_size=6).filter(any), min_size=1, max_size=4
    ),
    seed=seeds,
)
def test_a_sample_is_the_first_clock_to_ring_and_never_one_without_weight(
    weights: list[list[int]], seed: int
) -> None:
    drawn = sample(torch.tensor(weights).float(), seed, Stream.CHOICE, range(len(weights))).tolist()
    for position, (row, token) in enumerate(zip(weights, drawn, strict=True)):
        times = [
            naive_exponential(seed, Stream.CHOICE, position, other) / weight if weight else math.inf
            for other, weight in enumerate(row)
        ]
        assert row[token] > 0
        assert times[token] == min(times)


def test_samples_follow_their_weights() -> None:
    weights = torch.tensor([1.0, 0.0, 2.0, 3.0, 10.0])
    counts = torch.bincount(
        sample(weights.expand(4000, 5), 2, Stream.CHOICE, range(4000)), minlength=5
    )
    assert counts[1] == 0
    expected = (weights / weights.sum() * 4000)[[0, 2, 3, 4]].tolist()
    assert chi_square(counts[[0, 2, 3, 4]].tolist(), expected) > 1e-4


@pytest.mark.parametrize("vocabulary", [700, 40_000])
def test_rows_drawn_together_are_the_rows_drawn_alone(vocabulary: int) -> None:
    """At 40,000 tokens the rows are worked off one by one."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.softmax(torch.randn(5, vocabulary, generator=generator), dim=-1)
    together = sample(weights, 9, Stream.CHOICE, range(30, 35))
    alone = [sample(weights[i : i + 1], 9, Stream.CHOICE, (30 + i,)) for i in range(5)]
    assert torch.equal(together, torch.cat(alone))
