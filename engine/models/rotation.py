"""Rotary embedding of queries and keys as one complex multiplication per layer.

The usual layout pairs dimension i with i + d/2. Rotating interleaved pairs is cheaper, as the real and
imaginary part of one complex number, so the rows of W_q and W_k (and other vectors along a head) are
reordered once at load. Reordering both leaves the dot products of queries and keys unchanged.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.models.architecture import Rope, Temperature

_CHUNK = 1024
"""Positions whose angles are computed at once."""


def rotations(rope: Rope, head_dim: int, context: int, first: int = 0) -> Tensor:
    """Return complex numbers ``(context, head_dim / 2)`` of the rope's magnitude, with the angle position
    times frequency, from position ``first`` on. Pairs without a frequency get 1, which changes no bit of
    them.
    """
    frequency = torch.tensor(rope.frequencies, dtype=torch.float64)
    result = torch.ones(context, head_dim // 2, dtype=torch.complex64)
    rotated = result[:, : len(frequency)]
    positions = torch.arange(first, first + context, dtype=torch.float64)
    # In chunks: intermediate results take four times the memory of the result.
    for to, chunk in zip(rotated.split(_CHUNK), positions.split(_CHUNK), strict=True):
        angle = chunk[:, None] * frequency[None, :]
        to.copy_(torch.polar(torch.full_like(angle, rope.magnitude), angle))
    return result


def cosines(rope: Rope, head_dim: int, context: int) -> Tensor:
    """Return ``rotations`` as ``(context, head_dim / 2, 2)`` float32: cosine and sine of every pair."""
    return torch.view_as_real(rotations(rope, head_dim, context)).contiguous()


def rotations_in_images(rope: Rope, rotations: Tensor, places: Tensor) -> Tensor:
    """Return the rotations of rows at ``places`` (rows, 3) in images: complex (rows, head_dim / 2).

    ``rotations``: the rope's, by position.
    """
    axes = axis_of_pairs(rope, 2 * rotations.shape[1]).long()
    return rotations.gather(0, places[:, axes].long().to(rotations.device))


def axis_of_pairs(rope: Rope, head_dim: int) -> Tensor:
    """Return the axis of every pair of a head: int32 (head_dim / 2,). See ``Rope.axes``."""
    result = torch.zeros(head_dim // 2, dtype=torch.int32)
    result[: len(rope.axes)] = torch.tensor(rope.axes, dtype=torch.int32)
    return result


def temperatures(temperature: Temperature, context: int) -> Tensor:
    """Return the multiplier of the queries at each position: (context,) float32."""
    steps = torch.arange(context, dtype=torch.float64).div(temperature.length).floor()
    return (1 + temperature.scale * torch.log1p(steps)).float()


def interleave(weight: Tensor, heads: int, rope: Rope | None) -> Tensor:
    """Reorder ``weight (heads * d, ...)``: within a head 0, w/2, 1, w/2 + 1, ..., then the rest.

    w is the width that ``rope`` rotates. Files with interleaved pairs have that order already.
    """
    if rope is None or rope.interleaved:
        return weight
    half = len(rope.frequencies)
    by_head = weight.view(heads, weight.shape[0] // heads, -1)
    rotated, rest = by_head[:, : 2 * half], by_head[:, 2 * half :]
    rotated = rotated.view(heads, 2, half, -1).transpose(1, 2).reshape(heads, 2 * half, -1)
    return torch.cat([rotated, rest], dim=1).reshape(weight.shape)
