"""Apply rope to queries and keys and store keys and values: one launch between QKV and attention."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.cuda.kv_cache import LayerKV


def rope_and_store(
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
    tree: Tensor | None = None,
) -> Tensor:
    """Return the queries ``(rows, heads, head_dim)`` in the dtype of ``qkv``; write ``cache``.

    ``qkv (rows, (heads + 2 * kv_heads) * head_dim)`` bf16: row i is at position ``length + i``, with
    ``length (1,)`` int32 on the device, which stays unchanged. ``rotation`` (positions, head_dim / 2,
    2) float32: cosine and sine of every pair, (1, 0) for pairs that a partial rotation leaves as they
    are; None where the layer has no rope. ``norm`` (heads + kv_heads, head_dim) float32 is the RMSNorm
    weight of each query and key head (Qwen3, Gemma 3), or None. ``scale`` is the scale of the scores;
    it multiplies the queries here because an 8-bit weight would lose it. ``value_norm``: values are
    normed without a weight (Gemma 4). Unless it ``stores``, ``qkv`` and ``norm`` have queries alone, and
    ``cache`` stays unchanged. In a ``tree`` (see ``trees``) row i is stored at ``length + i`` and turned
    by its depth.
    """
    from engine.kernels.cuda import rotary_kernel as kernels

    rows = qkv.shape[0]
    kv_heads, capacity, head_dim = cache.keys.shape
    kv_heads = kv_heads if stores else 0
    heads = qkv.shape[1] // head_dim - 2 * kv_heads
    assert qkv.is_contiguous() and cache.keys.is_contiguous() and cache.values.is_contiguous()
    assert norm is None or norm.is_contiguous()
    assert rotation is None or (rotation.is_contiguous() and rotation.shape[0] >= capacity)
    scaled = cache.key_scales is not None
    query = torch.empty(rows, heads, head_dim, dtype=qkv.dtype, device=qkv.device)
    kernels.rope_and_store[(rows, heads + 2 * kv_heads)](
        qkv,
        length if norm is None else norm,  # any pointer: it is not read
        length if rotation is None else rotation,
        length, query, cache.keys, cache.values,
        cache.key_scales if scaled else length,
        cache.value_scales if scaled else length,
        length if tree is None else tree,
        capacity, epsilon, scale, HEADS=heads, KV_HEADS=kv_heads, WIDTH=head_dim,
        PAIRS=1 << (head_dim // 2 - 1).bit_length(), NORMED=norm is not None,
        VALUES_NORMED=value_norm, ROTATED=rotation is not None, SCALED=scaled, TREE=tree is not None,
        num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip
    return query
