"""Compiled sampling beside that of tensors: the same token is drawn."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.native import sampling
from engine.decoding.context import Context
from engine.decoding.sampling import Sampler
from engine.kernels.native.library import Library
from engine.noise import Stream, key, sample
from engine.values.sampling import AcceptanceRule, Sampling


def drawn(library: Library, weights: torch.Tensor, seed: int, first: int = 0) -> list[int]:
    positions = range(first, first + len(weights))
    return sampling.draw(library, weights, [key(seed, Stream.CHOICE, at) for at in positions])


@settings(max_examples=100, deadline=None)
@given(
    rows=st.integers(1, 16),
    width=st.integers(1, 300),
    flat=st.floats(0.0, 30.0),
    zeros=st.floats(0.0, 1.0),
    seed=st.integers(-(2**63), 2**64 - 1),
    first=st.integers(0, 2**20),
)
def test_the_same_token_wins(
    library: Library, rows: int, width: int, flat: float, zeros: float, seed: int, first: int
) -> None:
    """Also among few tokens, nearly equal ones, or where hardly any has a weight."""
    generator = torch.Generator().manual_seed(seed & 0xFFFF)
    weights = torch.softmax(torch.randn(rows, width, generator=generator) * flat, -1)
    weights[torch.rand(weights.shape, generator=generator) < zeros] = 0.0
    positions = range(first, first + rows)
    expected = sample(weights, seed, Stream.CHOICE, positions).tolist()
    assert drawn(library, weights, seed, first) == expected


@pytest.mark.parametrize("width", [4096, 151_936])
def test_the_same_token_wins_in_whole_vocabularies(library: Library, width: int) -> None:
    generator = torch.Generator().manual_seed(1)
    for spread in (0.0, 1.0, 6.0):
        weights = torch.softmax(torch.randn(8, width, generator=generator) * spread, -1)
        for seed in range(4):
            expected = sample(weights, seed, Stream.CHOICE, range(8)).tolist()
            assert drawn(library, weights, seed) == expected


def test_a_part_of_wider_rows_is_drawn_from_as_it_is(library: Library) -> None:
    whole = torch.rand(3, 70)
    assert drawn(library, whole[:, :41], 5) == drawn(library, whole[:, :41].contiguous(), 5)


def test_what_has_no_weight_never_wins_against_what_has(library: Library) -> None:
    weights = torch.zeros(2, 40)
    weights[1, 33] = 1e-38
    weights[1, 7] = float("nan")
    assert drawn(library, weights, 3) == [0, 33]


def test_a_request_draws_the_same_with_and_without_it(library: Library) -> None:
    context = Context([1, 2, 3])
    compiled, plain = (
        Sampler(Sampling(temperature=0.9), AcceptanceRule.COUPLED, 5, context, 500) for _ in "ab"
    )
    plain._library = None
    p = torch.softmax(torch.randn(16, 500, generator=torch.Generator().manual_seed(2)) * 3, -1)
    for stream in (Stream.CHOICE, Stream.RESIDUAL):
        assert compiled.draw(p, range(16), stream) == plain.draw(p, range(16), stream)
