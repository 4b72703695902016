"""The sampling kernels of CUDA in plain torch, for tests to compare with. They need Triton."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kernels.cuda.sampling.state import Distribution
from engine.kernels.cuda.sampling.truncation import MASS_ONE
from engine.noise import Stream, random_bits
from engine.values.sampling import Sampling

_ALL_ONES = (1 << 52) - 1
_UNIT = 2.0**-52
_ONE, _LOWEST = 0x3F800000, 0x3F400000
"""The bits of the float32 numbers 1 and 0.75."""
_TINY = -87.0
_LN_2_HIGH, _LN_2_LOW = 0.693359375, -2.12194440054690581e-4


def exponential_reference(
    seed: int, stream: Stream, positions: Sequence[int], vocabulary: int
) -> Tensor:
    """Compute ``arithmetic.exponential`` in torch: float32 (positions, vocabulary)."""
    bits = random_bits(seed, stream, positions, vocabulary)
    u = (bits.float() + 0.5) * _UNIT
    complement = ((bits ^ _ALL_ONES).float() + 0.5) * _UNIT
    raw = u.view(torch.int32) + (_ONE - _LOWEST)
    near = complement < 0.25
    k = torch.where(near, 0, (raw >> 23) - 127)
    f = torch.where(near, -complement, ((raw & 0x7FFFFF) + _LOWEST).view(torch.float32) - 1.0)
    s = f / (f + 2.0)
    z = s * s
    series = ((z * (2 / 9) + 2 / 7) * z + 2 / 5) * z + 2 / 3
    noise: Tensor = -(k.float() * 0.6931471805599453 + (s * 2.0 + s * z * series))
    return noise


def exp_reference(x: Tensor) -> Tensor:
    """Compute ``arithmetic.exp`` in torch: float32 of any shape."""
    clamped = torch.where(x > _TINY, x, 0.0)
    n = (clamped * 1.4426950408889634 + 0.5).floor()
    r = (clamped - n * _LN_2_HIGH) - n * _LN_2_LOW
    series = torch.full_like(r, 1 / 5040)
    for factorial in (720, 120, 24, 6, 2):
        series = series * r + 1 / factorial
    scale = ((n.int() + 127) << 23).view(torch.float32)
    result = ((series * (r * r) + r) + 1.0) * scale
    return torch.where(x > _TINY, result.clamp_max(1.0), torch.zeros_like(x))


def weights_reference(adjusted: Tensor) -> Tensor:
    """Return the weights of logits after penalties, mask and temperature: float32, same shape."""
    return exp_reference(adjusted - adjusted.amax(-1, keepdim=True))


def truncated_reference(weights: Tensor, sampling: Sampling) -> Distribution:
    """Compute the result of ``truncate_kernel`` by sorting; ``weights`` float32 (rows, vocabulary)."""
    thresholds = [_row_threshold(row, sampling) for row in weights]
    masses = [
        _mass(row[row.view(torch.int32) >= threshold]).sum()
        for row, threshold in zip(weights, thresholds, strict=True)
    ]
    return Distribution(
        weights,
        torch.tensor(thresholds, dtype=torch.int32),
        torch.stack(masses).float() / MASS_ONE,
    )


def draw_reference(weights: Tensor, seed: int, stream: Stream, position: int) -> int:
    """Return the token that the kernels draw from ``weights`` float32 (vocabulary,)."""
    noise = exponential_reference(seed, stream, (position,), len(weights))[0]
    return int(torch.where(weights > 0, noise / weights, torch.inf).argmin())


def _row_threshold(row: Tensor, sampling: Sampling) -> int:
    ranked = row.sort(descending=True).values
    smallest = ranked.new_tensor(0.0)
    if 0 < sampling.top_k < len(row):
        smallest = ranked[sampling.top_k - 1]
    if sampling.top_p < 1:
        mass = _mass(torch.where(ranked >= smallest, ranked, 0.0))
        before = mass.cumsum(0) - mass
        limit = (mass.sum().double() * sampling.top_p).ceil()
        smallest = torch.maximum(smallest, ranked[before < limit].min())
    smallest = torch.maximum(smallest, ranked.new_tensor(sampling.min_p))
    return int(smallest.view(torch.int32))


def _mass(weights: Tensor) -> Tensor:
    return (weights * MASS_ONE).long()
