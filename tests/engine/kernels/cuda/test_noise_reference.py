"""The sampling kernels' noise in torch: its distribution, and its distance from the engine's noise."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.decoding.acceptance import rejection_sample, verify_block
from engine.events import Tree
from engine.noise import Stream, exponential, place_in_draft, uniform
from tests.support.chi_square import chi_square
from tests.support.sampling_references import draw_reference, exponential_reference


def test_float32_clocks_are_exponential_and_those_of_the_engine_to_seven_digits() -> None:
    from scipy.stats import kstest  # a second, which the other test processes do without

    positions = range(40, 60)
    clocks = exponential_reference(11, Stream.CHOICE, positions, 5000)
    exact = exponential(11, Stream.CHOICE, positions, 5000)
    assert float(((clocks - exact) / exact).abs().max()) < 4e-7
    assert kstest(clocks.flatten().numpy(), "expon").pvalue > 1e-4


@pytest.mark.parametrize("rule", [rejection_sample, verify_block])
def test_the_rules_with_the_kernels_noise_leave_p(rule: Any) -> None:
    """Chi-square of the first token over 2,000 seeds; the kernel gives the same tokens."""
    vocabulary, seeds = 12, 2000
    p, q = torch.softmax(
        torch.randn(2, 3, vocabulary, generator=torch.Generator().manual_seed(5)), -1
    )
    counts = [0] * vocabulary
    for seed in range(seeds):
        drafted = [draw_reference(q[i], seed, Stream.DRAFT, place_in_draft(2, i)) for i in range(2)]

        def coin(node: int, seed: int = seed) -> float:
            return uniform(seed, Stream.ACCEPT, place_in_draft(2, node))

        def draw(weights: torch.Tensor, row: int, is_residual: bool, seed: int = seed) -> int:
            stream = Stream.RESIDUAL if is_residual else Stream.CHOICE
            return draw_reference(weights, seed, stream, 2 + row)

        verdict = rule(p, q[:2], Tree.chain(drafted), coin, draw)
        counts[drafted[0] if verdict.path else verdict.next_token] += 1
    assert chi_square(counts, (p[0].double() / p[0].double().sum() * seeds).tolist()) > 1e-4
