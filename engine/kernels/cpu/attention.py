"""Attention over a static KV cache, same bits for any number of query rows.

``scaled_dot_product_attention`` sums in an order that depends on the shape of the call. Here the KV
cache is cut into blocks of 256 absolute positions; scores and weighted values are computed per block
in one fixed shape and the blocks are added up from the first to the last. A block that lies wholly
in a row's future, or behind its window, adds exactly zero, so neither a longer cache nor more rows
change a result, and blocks that no row sees can be left out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 256
"""Positions per KV block."""
ROW_QUANTUM = 4
"""Query rows per KV head are padded to a multiple of this: below, BLAS takes another path."""


def first_block(start: int, window: int | None) -> int:
    """The first block that a row at ``start``, or one after it, may look into."""
    return 0 if window is None else max(start - window + 1, 0) // BLOCK


def causal_bias(
    start: int,
    rows: int,
    group: int,
    blocks: int,
    like: Tensor,
    *,
    first: int = 0,
    window: int | None = None,
) -> Tensor:
    """0 where a row may look, -inf elsewhere: ``(blocks, 1, group * padded rows, BLOCK)``.

    Row i stands at absolute position ``start + i`` and sees itself and the ``window - 1`` positions
    before it, or all of them. Rows that pad see what the last row sees. Of the cache's blocks,
    ``blocks`` from ``first`` on are meant; what lies before must be out of every row's sight.
    """
    padded = padded_rows(rows, group)
    position = torch.arange(start, start + padded, device=like.device).clamp_(max=start + rows - 1)
    key = torch.arange(first * BLOCK, (first + blocks) * BLOCK, device=like.device)
    hidden = key[None, :] > position[:, None]  # (padded, blocks * BLOCK)
    if window is not None:
        hidden |= key[None, :] <= position[:, None] - window
    bias = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    bias.masked_fill_(hidden, float("-inf"))
    return bias.view(padded, blocks, 1, BLOCK).permute(1, 2, 0, 3).repeat(1, 1, group, 1)


def padded_rows(rows: int, group: int) -> int:
    """The least count >= ``rows`` for which ``group * count`` is a multiple of ROW_QUANTUM."""
    while rows * group % ROW_QUANTUM:
        rows += 1
    return rows


def attend(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor, cap: float | None = None
) -> Tensor:
    """Attention of scaled queries over KV blocks, summed in float32 in block order.

    ``query``: (rows, heads, head_dim), already multiplied by the scale of the scores.
    ``keys``, ``values``: (blocks, kv_heads, BLOCK, head_dim), finite everywhere.
    ``bias``: from ``causal_bias``. Scores s become cap * tanh(s / cap) where there is a ``cap``.
    Returns (rows, heads * head_dim).
    """
    rows, heads, width = query.shape
    blocks, kv_heads = keys.shape[:2]
    group = heads // kv_heads
    padded = bias.shape[2] // group
    if padded > rows:
        query = F.pad(query, (0, 0, 0, 0, 0, padded - rows))
    query = query.view(padded, kv_heads, group, width).permute(1, 2, 0, 3)
    query = query.reshape(1, kv_heads, group * padded, width)

    scores = torch.matmul(query, keys.transpose(-1, -2))
    if cap is not None:
        scores = cap * torch.tanh(scores.float() / cap)
    scores = (scores + bias).float()
    peak = scores.amax(-1, keepdim=True).amax(0, keepdim=True)  # exact in any order
    weight = torch.exp(scores - peak)
    norm = weight.sum(-1, keepdim=True)  # (blocks, kv_heads, group * padded, 1)
    mixed = torch.matmul(weight.to(values.dtype), values).float()

    total, total_norm = mixed[0], norm[0]
    for block in range(1, blocks):
        total, total_norm = total + mixed[block], total_norm + norm[block]
    out = (total / total_norm).to(values.dtype)  # (kv_heads, group * padded, head_dim)
    out = out.view(kv_heads, group, padded, width).permute(2, 0, 1, 3).reshape(padded, -1)
    return out[:rows]
