"""Queries turned, keys turned and stored, values stored: one launch between QKV and attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda.kv_cache import FP8, FP8_LIMIT, LayerKV


def turn_and_store(
    qkv: Tensor,
    cache: LayerKV,
    length: Tensor,
    *,
    rotation: Tensor | None,
    norm: Tensor | None = None,
    epsilon: float = 0.0,
    scale: float = 1.0,
) -> Tensor:
    """The queries ``(rows, heads, head_dim)`` in the dtype of ``qkv``; writes ``cache``.

    ``qkv (rows, (heads + 2 * kv_heads) * head_dim)`` bf16: row i stands at position ``length + i``,
    with ``length (1,)`` int32 on the device, which is left alone. ``rotation``
    (positions, head_dim / 2, 2) float32: cosine and sine of every pair, (1, 0) for pairs that a
    partial rotation leaves as they are; None where the layer knows no positions. ``norm``
    (heads + kv_heads, head_dim) float32 multiplies heads that RMSNorm has made even (Qwen3, Gemma 3);
    None where there is none. ``scale`` multiplies the queries: that of the scores, which would not
    survive in a weight of 8 bits.
    """
    from engine.kernels.cuda import rotary_kernel as kernels

    rows = qkv.shape[0]
    kv_heads, capacity, head_dim = cache.keys.shape
    heads = qkv.shape[1] // head_dim - 2 * kv_heads
    assert qkv.is_contiguous() and cache.keys.is_contiguous() and cache.values.is_contiguous()
    assert norm is None or norm.is_contiguous()
    assert rotation is None or (rotation.is_contiguous() and rotation.shape[0] >= capacity)
    scaled = cache.key_scales is not None
    query = torch.empty(rows, heads, head_dim, dtype=qkv.dtype, device=qkv.device)
    kernels.turn_and_store[(rows, heads + 2 * kv_heads)](
        qkv,
        length if norm is None else norm,  # any pointer: it is not read
        length if rotation is None else rotation,
        length,
        query,
        cache.keys,
        cache.values,
        cache.key_scales if scaled else length,
        cache.value_scales if scaled else length,
        capacity,
        epsilon,
        scale,
        HEADS=heads,
        KV_HEADS=kv_heads,
        WIDTH=head_dim,
        PAIRS=1 << (head_dim // 2 - 1).bit_length(),
        NORMED=norm is not None,
        TURNED=rotation is not None,
        SCALED=scaled,
        num_warps=1,
        enable_fp_fusion=False,
    )
    return query


def turn_and_store_reference(
    qkv: Tensor,
    cache: LayerKV,
    length: Tensor,
    *,
    rotation: Tensor | None,
    norm: Tensor | None = None,
    epsilon: float = 0.0,
    scale: float = 1.0,
) -> Tensor:
    """``turn_and_store`` in torch, as the decoder does it; waits for ``length``."""
    rows, start = qkv.shape[0], int(length)
    kv_heads, _, head_dim = cache.keys.shape
    parts = qkv.view(rows, -1, head_dim)
    qk, value = parts[:, :-kv_heads].float(), parts[:, -kv_heads:]
    if norm is not None:
        qk = F.rms_norm(qk, (head_dim,), None, epsilon) * norm
    if rotation is not None:
        turned = torch.view_as_complex(qk.reshape(rows, -1, head_dim // 2, 2))
        turned = turned * torch.view_as_complex(rotation[start : start + rows, None])
        qk = torch.view_as_real(turned).view(qk.shape)
    there = slice(start, start + rows)
    _store(cache.keys[:, there], cache.key_scales, qk[:, -kv_heads:], there)
    _store(cache.values[:, there], cache.value_scales, value.float(), there)
    return (qk[:, :-kv_heads] * scale).to(qkv.dtype).contiguous()


def _store(out: Tensor, scales: Tensor | None, heads: Tensor, there: slice) -> None:
    """Writes ``heads (rows, kv_heads, head_dim)`` float32 to ``out``, a part of the cache."""
    heads = heads.transpose(0, 1)
    if scales is None:
        out.copy_(heads.to(out.dtype))
        return
    scale = heads.abs().amax(-1).clamp(min=1e-30) / FP8_LIMIT  # (kv_heads, rows)
    scales[:, there] = scale
    out.copy_((heads / scale[..., None]).clamp(-FP8_LIMIT, FP8_LIMIT).to(FP8))
