"""EAGLE-3's layer as it trains: unrolled over its own states, all positions at once.

The paper's training-time test (arXiv 2503.01840, section 3.2, figure 6): at step 0 row i has the target's
state of token i; at step k it has what it put out itself at step k - 1, one token further on. It then
sees the rows of step 0 up to its own, and of the later steps only what it wrote itself, which is what
lies in the cache when it drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.train.network import BLOCK, MASKED

EPSILON = 1e-6


class Attention(nn.Module):
    """The projections of self-attention whose input is ``2 * width`` wide."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(2 * width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(2 * width, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(2 * width, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)


class FeedForward(nn.Module):
    """The projections of a gated feed-forward layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)


class Layer(nn.Module):
    """One decoder layer; its parameters have their published names."""

    def __init__(self, width: int, inner: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.hidden_norm = nn.RMSNorm(width, EPSILON)
        self.input_layernorm = nn.RMSNorm(width, EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(width, EPSILON)
        self.self_attn = Attention(width, heads, kv_heads, head_dim)
        self.mlp = FeedForward(width, inner)

    def unroll(
        self, embedded: Tensor, state: Tensor, steps: int, theta: float, dtype: torch.dtype
    ) -> Iterator[Tensor]:
        """What every row puts out at steps 0, 1, ...: (rows, length, width) in ``dtype``.

        embedded (rows, length + steps, width): of token i + 1 at place i. state (rows, length, width).
        """
        length = state.shape[1]
        cosine, sine = _rotation(length + steps, self.head_dim, theta, state.device, dtype)
        causal = torch.ones(length, length, dtype=torch.bool, device=state.device).tril()
        mask = torch.zeros(length, length, dtype=dtype, device=state.device)
        mask = mask.masked_fill(~causal, MASKED)
        kept: list[tuple[Tensor, Tensor]] = []
        state = state.to(dtype)
        for step in range(steps):
            part = slice(step, step + length)
            x = torch.cat(
                [
                    _norm(self.input_layernorm, embedded[:, part].to(dtype)),
                    _norm(self.hidden_norm, state),
                ],
                dim=2,
            )
            query, key, value = (self._heads(x, name) for name in ("q", "k", "v"))
            query, key = (_turn(one, cosine[part], sine[part]) for one in (query, key))
            kept.append((key, value))
            seen = look(query * self.head_dim**-0.5, kept, mask)
            state = state + _product(self.self_attn.o_proj, seen)
            normed = _norm(self.post_attention_layernorm, state)
            gate = F.silu(_product(self.mlp.gate_proj, normed))
            inner = gate * _product(self.mlp.up_proj, normed)
            state = state + _product(self.mlp.down_proj, inner)
            yield state

    def _heads(self, x: Tensor, name: str) -> Tensor:
        """(rows, heads, length, head_dim)."""
        projection = self.self_attn.get_submodule(f"{name}_proj")
        assert isinstance(projection, nn.Linear)
        parted: Tensor = _product(projection, x).unflatten(2, (-1, self.head_dim))
        return parted.transpose(1, 2)


def look(query: Tensor, kept: Sequence[tuple[Tensor, Tensor]], mask: Tensor) -> Tensor:
    """Attention of each row to step 0's rows up to it, and to its own of the steps after.

    query (rows, heads, length, dim), scaled; ``kept``: each step's keys and values (rows, kv heads,
    length, dim); mask (length, length), added. Returns (rows, length, heads * dim).
    """
    (keys, values), *own = kept
    rows, heads, length, dim = query.shape
    shared = keys.shape[1]
    grouped = query.view(rows, shared, heads // shared, length, dim)
    to_own = [(grouped * key[:, :, None]).sum(-1, keepdim=True) for key, _ in own]
    parts = []
    for start in range(0, length, BLOCK):  # of queries, each against the keys up to its end
        end = min(start + BLOCK, length)
        tall = grouped[:, :, :, start:end].flatten(2, 3)
        scores = tall @ keys[:, :, :end].transpose(2, 3)
        scores = scores.unflatten(2, (-1, end - start)) + mask[start:end, :end]
        scores = torch.cat([scores, *(one[:, :, :, start:end] for one in to_own)], dim=4)
        weights = torch.softmax(scores.float(), dim=4).to(query.dtype)
        mixed = weights[..., :end].flatten(2, 3) @ values[:, :, :end]
        mixed = mixed.unflatten(2, (-1, end - start))
        for place, (_, value) in enumerate(own):
            part = value[:, :, None, start:end]
            mixed = mixed + weights[..., end + place : end + place + 1] * part
        parts.append(mixed)
    return torch.cat(parts, dim=3).permute(0, 3, 1, 2, 4).reshape(rows, length, -1)


def _rotation(
    length: int, head_dim: int, theta: float, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(length, head_dim) cosine, and sine with the sign of the rotation in it."""
    frequency = theta ** -(torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.arange(length)[:, None] * frequency
    cosine = torch.cat([angles.cos(), angles.cos()], dim=1)
    sine = torch.cat([-angles.sin(), angles.sin()], dim=1)
    return cosine.to(device, dtype), sine.to(device, dtype)


def _turn(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Llama's rotation: dimension i of a head with i + d / 2."""
    return x * cosine + x.roll(x.shape[-1] // 2, -1) * sine


def _product(linear: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, linear.weight.to(x.dtype))


def _norm(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    normed: Tensor = norm(x.float())
    return normed.to(x.dtype)
