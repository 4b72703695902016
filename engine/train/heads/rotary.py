"""Rotary position embedding in Llama's layout: dimension i rotates with i + head_dim / 2."""

from __future__ import annotations

import torch
from torch import Tensor

Rotary = tuple[Tensor, Tensor]
"""(..., head_dim) cosine, and sine with the sign of the rotation in it."""


def rotary_of(positions: Tensor, frequencies: Tensor) -> Rotary:
    """Return the rotation at ``positions`` (...,), by ``frequencies`` (head_dim / 2,)."""
    angles = positions[..., None] * frequencies
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([cosine, cosine], -1), torch.cat([-sine, sine], -1)


def apply_rotary(x: Tensor, rotary: Rotary) -> Tensor:
    """Rotate ``x`` (..., head_dim)."""
    cosine, sine = rotary
    return x * cosine + x.roll(x.shape[-1] // 2, -1) * sine
