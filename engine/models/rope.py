"""Rotary position embedding as one complex product per layer.

The usual layout pairs dimension i with i + d/2. Rotating is cheaper when partners lie side by side,
as the real and imaginary part of one complex number, so the rows of W_q and W_k are reordered once at
load (``interleave``). Dot products of queries and keys do not notice a reordering applied to both.
Source: Su et al. 2021 (RoFormer); the "llama3" scaling is Meta's, as in transformers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from engine.errors import ModelError


def interleave(weight: Tensor, heads: int) -> Tensor:
    """Reorders the rows of ``weight (heads * d, in)``: within a head 0, d/2, 1, d/2 + 1, ..."""
    rows, width = weight.shape
    half = rows // heads // 2
    return weight.view(heads, 2, half, width).transpose(1, 2).reshape(rows, width)


def rotations(config: Mapping[str, Any], head_dim: int, context: int) -> Tensor:
    """``(context, head_dim / 2)`` unit complex numbers: position times frequency as an angle."""
    frequency = _frequencies(config, head_dim)
    angle = torch.arange(context, dtype=torch.float64)[:, None] * frequency[None, :]
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64)


def _frequencies(config: Mapping[str, Any], head_dim: int) -> Tensor:
    # transformers 5 writes rope_parameters; earlier versions rope_theta and rope_scaling.
    settings: Mapping[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(settings.get("rope_theta") or config.get("rope_theta") or 10000.0)
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    frequency = theta**-exponent
    kind = settings.get("rope_type") or settings.get("type") or "default"
    if kind == "default":
        return frequency
    if kind == "llama3":
        return _llama3(frequency, settings)
    raise ModelError(f"rope scaling {kind!r} is not known to the own decoder.")


def _llama3(frequency: Tensor, settings: Mapping[str, Any]) -> Tensor:
    """Slows long wavelengths down by ``factor``, keeps short ones, blends between."""
    factor = float(settings["factor"])
    low, high = float(settings["low_freq_factor"]), float(settings["high_freq_factor"])
    original = float(settings["original_max_position_embeddings"])
    turns = original * frequency / (2 * math.pi)  # full turns within the original context
    blend = ((turns - low) / (high - low)).clamp(0, 1)
    return frequency * (blend + (1 - blend) / factor)
