"""Parts of a decoder layer in training; parameters have their published names.

RoPE is in Llama's layout: dimension i rotates with i + head_dim / 2.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


class Attention(nn.Module):
    """The projections of self-attention; its input is ``inputs`` wide, its output ``width``."""

    def __init__(self, inputs: int, width: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self._head_dim = head_dim
        self.q_proj = nn.Linear(inputs, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(inputs, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(inputs, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)

    def project(self, name: str, x: Tensor) -> Tensor:
        """Return the queries, keys or values of ``x`` by ``name`` q, k or v: (..., heads, head_dim)."""
        projection = self.get_submodule(f"{name}_proj")
        assert isinstance(projection, nn.Linear)
        projected: Tensor = linear(projection, x).unflatten(-1, (-1, self._head_dim))
        return projected


class FeedForward(nn.Module):
    """A gated feed-forward with SiLU."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the feed-forward's result, in the shape and dtype of ``x`` (..., width)."""
        gate = F.silu(linear(self.gate_proj, x))
        return linear(self.down_proj, gate * linear(self.up_proj, x))


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply ``layer`` in the dtype of ``x``."""
    return F.linear(x, layer.weight.to(x.dtype))
