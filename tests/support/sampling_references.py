"""The sampling kernels of CUDA in plain torch, for tests to compare with. They need Triton."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.kernels.cuda.sampling.distribution import MASS_ONE
from engine.noise import Stream, random_bits
from engine.values.sampling import Sampling

_ALL_ONES = (1 << 52) - 1
_UNIT = 2.0**-52
_ONE, _LOWEST = 0x3F800000, 0x3F400000
"""The bits of the float32 numbers 1 and 0.75."""


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


def weights_reference(adjusted: Tensor) -> Tensor:
    """Return the weights of logits after penalties, mask and temperature: float32, same shape."""
    return (adjusted - adjusted.amax(-1, keepdim=True)).exp() * MASS_ONE


def truncated_reference(weights: Tensor, sampling: Sampling) -> Tensor:
    """Return the weights (rows, vocabulary) that stay, the others as 0."""
    return torch.stack([torch.where(row >= _cut(row, sampling), row, 0.0) for row in weights])


def draw_reference(p: Tensor, seed: int, stream: Stream, position: int) -> int:
    """Return the token that the kernels draw from ``p`` float32 (vocabulary,)."""
    noise = exponential_reference(seed, stream, (position,), len(p))[0]
    return int(torch.where(p > 0, noise / p, torch.inf).argmin())


def _cut(row: Tensor, sampling: Sampling) -> Tensor:
    ranked = row.sort(descending=True).values
    smallest = ranked.new_tensor(0.0)
    if 0 < sampling.top_k < len(row):
        smallest = ranked[sampling.top_k - 1]
    if sampling.top_p < 1:
        mass = torch.where(ranked >= smallest, ranked, 0.0).long()
        before = mass.cumsum(0) - mass
        limit = (mass.sum().double() * sampling.top_p).ceil()
        smallest = torch.maximum(smallest, ranked[before < limit].min())
    return torch.maximum(smallest, ranked.new_tensor(sampling.min_p) * MASS_ONE)
