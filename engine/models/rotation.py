"""Turning queries and keys as one complex product per layer.

The usual layout pairs dimension i with i + d/2. Rotating is cheaper when partners lie side by side,
as the real and imaginary part of one complex number, so the rows of W_q and W_k (and what else runs
along a head) are reordered once at load. Dot products of queries and keys do not notice a reordering
applied to both.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.models.architecture import Rope

_TOGETHER = 1024
"""Positions whose angles are worked out at once."""


def rotations(rope: Rope, head_dim: int, context: int) -> Tensor:
    """``(context, head_dim / 2)`` complex numbers: magnitude, and position times frequency as angle.

    Pairs without a frequency get 1, which leaves them as they are, to the bit.
    """
    frequency = torch.tensor(rope.frequencies, dtype=torch.float64)
    result = torch.ones(context, head_dim // 2, dtype=torch.complex64)
    turned = result[:, : len(frequency)]
    positions = torch.arange(context, dtype=torch.float64)
    # In parts: what is made on the way takes four times what comes of it.
    for to, some in zip(turned.split(_TOGETHER), positions.split(_TOGETHER), strict=True):
        angle = some[:, None] * frequency[None, :]
        to.copy_(torch.polar(torch.full_like(angle, rope.magnitude), angle))
    return result


def cosines(rope: Rope, head_dim: int, context: int) -> Tensor:
    """``rotations`` as ``(context, head_dim / 2, 2)`` float32: cosine and sine of every pair."""
    return torch.view_as_real(rotations(rope, head_dim, context)).contiguous()


def side_by_side(weight: Tensor, heads: int, rope: Rope | None) -> Tensor:
    """Reorders ``weight (heads * d, ...)``: within a head 0, w/2, 1, w/2 + 1, ..., then the rest.

    w is the width that ``rope`` turns.
    """
    if rope is None:
        return weight
    half = len(rope.frequencies)
    by_head = weight.view(heads, weight.shape[0] // heads, -1)
    turned, still = by_head[:, : 2 * half], by_head[:, 2 * half :]
    turned = turned.view(heads, 2, half, -1).transpose(1, 2).reshape(heads, 2 * half, -1)
    return torch.cat([turned, still], dim=1).reshape(weight.shape)
