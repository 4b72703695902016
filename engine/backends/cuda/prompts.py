"""Attention of a prompt's many rows by torch, which is quicker there than the kernels of few rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda.kv_cache import LayerKV
from engine.models.architecture import Attention

_WIDEST = 256
"""Size of heads, at most, that FlashAttention computes (Dao 2023)."""


def is_plain(spec: Attention, cache: LayerKV, length: int) -> bool:
    """Return whether torch has this attention over ``length`` positions: no cap, window, sinks or scales.

    And in memory that does not grow with both lengths: on Windows it is built without such a kernel, and
    for wide heads (Gemma 4) nowhere is it.
    """
    windowed = spec.window is not None and spec.window < length
    flash = spec.head_dim <= _WIDEST and torch.backends.cuda.is_flash_attention_available()
    flash |= cache.keys.device.type != "cuda"
    own = spec.score_cap is not None or spec.sinks or windowed or cache.key_scales is not None
    return flash and not own


def attend_prompt(query: Tensor, cache: LayerKV, past: int) -> Tensor:
    """Return the attention of each row: ``(rows, heads * head_dim)`` in the dtype of ``query``.

    ``query (rows, heads, head_dim)`` is scaled; row i is at position ``past + i`` and sees itself and
    all before, which ``cache`` holds.
    """
    from torch.nn.attention.bias import causal_lower_right  # imports torch's compiler, seconds

    rows, length = len(query), past + len(query)
    keys, values = (part[None, :, :length] for part in (cache.keys, cache.values))
    # A copy of them for each query head would be half a gigabyte for 32,768 tokens of an 8B.
    attended = F.scaled_dot_product_attention(
        query.transpose(0, 1)[None],
        keys,
        values,
        causal_lower_right(rows, length),
        scale=1.0,
        enable_gqa=True,
    )
    return attended[0].transpose(0, 1).reshape(rows, -1)
