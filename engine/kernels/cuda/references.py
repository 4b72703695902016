"""The linear, attention, rope and norm kernels in plain torch, for trials on a GPU and tests.

Sums are float32 (int8: integers) over inputs and weights rounded as the kernels round them. What follows
a linear layer's sum stays in float32 until the result is rounded, once.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda.kv_cache import FP8, FP8_LIMIT, LayerKV
from engine.kernels.cuda.linear.dispatch import Weight
from engine.kernels.cuda.linear.fusion import FusedLinear, Fusion, Norm
from engine.kernels.formats import int8
from engine.kernels.formats.int8 import Int8Weight

LEVELS = int8.ACTIVATION_LEVELS[0]


def attend_reference(
    query: Tensor,
    cache: LayerKV,
    length: Tensor,
    *,
    window: int | None = None,
    cap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Compute ``attend`` by its definition in float32, one row at a time."""
    rows, heads, head_dim = query.shape
    keys, values = cache.floats()
    kv_heads = keys.shape[0]
    start, out = int(length), []
    for row in range(rows):
        seen = slice(0 if window is None else max(start + row - window + 1, 0), start + row + 1)
        grouped = query[row].float().view(kv_heads, heads // kv_heads, head_dim)
        scores = grouped @ keys[:, seen].transpose(1, 2)  # (kv_heads, group, seen)
        if cap is not None:
            scores = cap * torch.tanh(scores / cap)
        if sinks is not None:
            scores = torch.cat([sinks.view(*scores.shape[:2], 1), scores], dim=-1)
        weights = scores.softmax(-1)[..., 0 if sinks is None else 1 :]
        out.append((weights @ values[:, seen]).view(-1))
    return torch.stack(out).to(query.dtype)


def rope_and_store_reference(
    qkv: Tensor,
    cache: LayerKV,
    length: Tensor,
    *,
    rotation: Tensor | None,
    norm: Tensor | None = None,
    epsilon: float = 0.0,
    scale: float = 1.0,
    value_norm: bool = False,
    stores: bool = True,
) -> Tensor:
    """Compute ``rope_and_store`` in torch, as the torch decoder does; waits for ``length``."""
    rows, start = qkv.shape[0], int(length)
    kv_heads, _, head_dim = cache.keys.shape
    kv_heads = kv_heads if stores else 0
    parts = qkv.view(rows, -1, head_dim).float()
    qk, value = parts.tensor_split([parts.shape[1] - kv_heads], dim=1)
    if norm is not None:
        qk = F.rms_norm(qk, (head_dim,), None, epsilon) * norm
    if rotation is not None:
        rotated = torch.view_as_complex(qk.reshape(rows, -1, head_dim // 2, 2))
        rotated = rotated * torch.view_as_complex(rotation[start : start + rows, None])
        qk = torch.view_as_real(rotated).view(qk.shape)
    if value_norm:
        value = F.rms_norm(value, (head_dim,), None, epsilon)
    query, key = qk.tensor_split([qk.shape[1] - kv_heads], dim=1)
    if stores:
        there = slice(start, start + rows)
        _store(cache.keys[:, there], cache.key_scales, key, there)
        _store(cache.values[:, there], cache.value_scales, value, there)
    return (query * scale).to(qkv.dtype).contiguous()


def _store(out: Tensor, scales: Tensor | None, heads: Tensor, there: slice) -> None:
    """Write ``heads (rows, kv_heads, head_dim)`` float32 to ``out``, a part of the cache."""
    heads = heads.transpose(0, 1)
    if scales is None:
        out.copy_(heads.to(out.dtype))
        return
    scale = heads.abs().amax(-1).clamp(min=1e-30) / FP8_LIMIT  # (kv_heads, rows)
    scales[:, there] = scale
    out.copy_((heads / scale[..., None]).clamp(-FP8_LIMIT, FP8_LIMIT).to(FP8))


def normalise_reference(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    """Compute ``normalise`` in torch."""
    result = x.float() * _norm_factor(x, norm) * norm.weight.float()
    return (result if residual is None else result + residual.float()).to(x.dtype)


def _norm_factor(x: Tensor, norm: Norm) -> Tensor:
    """Return 1 / sqrt(mean square + epsilon) of each row: ``(rows, 1)`` float32."""
    return torch.rsqrt(x.float().square().mean(-1, keepdim=True) + norm.epsilon)


def linear_reference(weight: Weight, fusion: Fusion) -> FusedLinear:
    """Return the reference of the linear layer with ``weight`` and ``fusion``."""
    if isinstance(weight, Int8Weight):
        return partial(_multiply_int8, weight, fusion)
    return partial(_multiply_floats, floats_of(weight), fusion)


def floats_of(weight: Weight) -> Tensor:
    """Return the weight as the kernels multiply by it: float32 ``(out, in)``."""
    if isinstance(weight, tuple):
        return torch.cat([floats_of(part) for part in weight])
    return (weight if isinstance(weight, Tensor) else weight.dequantise()).float()


def _multiply_floats(
    weight: Tensor, fusion: Fusion, x: Tensor, residual: Tensor | None = None
) -> Tensor:
    """Multiply by a weight in bf16, or dequantised to it; inputs are rounded to it too."""
    inputs = x if fusion.norm is None else normalise_reference(x, fusion.norm)
    sums = F.linear(inputs.bfloat16().float(), weight)
    return _finish(sums, fusion, residual, x.dtype)


def _multiply_int8(
    weight: Int8Weight, fusion: Fusion, x: Tensor, residual: Tensor | None = None
) -> Tensor:
    """Multiply by an int8 weight: rows are quantised by their largest value, sums are exact.

    Without a norm this gives the bits of ``engine.kernels.torch.int8.Int8Reference``.
    """
    values, scale = quantise_rows(x, fusion.norm)
    total = F.linear(values.double(), weight.values.double()).float()  # exact below 2**53
    return _finish(total * weight.scale * scale, fusion, residual, x.dtype)


def _finish(sums: Tensor, fusion: Fusion, residual: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Apply bias, gate and residual to float32 ``sums (rows, out)``; round once, to ``dtype``."""
    if fusion.bias is not None:
        sums = sums + fusion.bias.float()
    if fusion.gated:
        gate, other = sums.chunk(2, dim=-1)
        sums = F.silu(gate) * other
    if residual is not None:
        sums = sums + residual.float()
    return sums.to(dtype)


def quantise_rows(x: Tensor, norm: Norm | None) -> tuple[Tensor, Tensor]:
    """Return ``x (rows, in)`` as int8 up to +-``LEVELS``, and each row's scale ``(rows, 1)`` float32.

    The scale of a row that is not finite is NaN, and so is its result. A norm's factor is part of the
    scale: it does not change the quantised values.
    """
    inputs = x.float() if norm is None else x.float() * norm.weight.float()
    quantised, scale = int8.quantise_rows(inputs, LEVELS)
    values = (quantised.short() - (LEVELS + 1)).to(torch.int8)
    bad = ~scale.isfinite()
    values, scale = values.masked_fill(bad, 0), scale.masked_fill(bad, float("nan"))
    return values, scale if norm is None else scale * _norm_factor(x, norm)
