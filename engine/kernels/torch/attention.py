"""Attention over a static KV cache, same bits for any number of query rows.

``scaled_dot_product_attention`` sums in an order that depends on the shape of the call. Here the KV
cache is cut into blocks of 256 absolute positions; scores and weighted values are computed per block
in one fixed shape and the blocks are added up from the first to the last. A block that lies wholly
in a row's future, or behind its window, adds exactly zero, so neither a longer cache nor more rows
change a result, and blocks that no row sees can be left out.

That holds where BLAS takes one path for all padded row counts. ``choose_attend`` tries it, and has
``attend_singly`` for a machine where it does not hold.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

log = logging.getLogger(__name__)

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, float | None], Tensor]
"""Query, keys, values, bias and cap to the attended values, as ``attend``."""

KV_BLOCK = 256
"""Positions per KV block."""
ROW_QUANTUM = 4
"""Query rows per KV head are padded to a multiple of this: below, BLAS takes another path."""


def first_block(start: int, window: int | None) -> int:
    """The first block that a row at ``start``, or one after it, may look into."""
    return 0 if window is None else max(start - window + 1, 0) // KV_BLOCK


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
    """0 where a row may look, -inf elsewhere: ``(blocks, 1, group * padded rows, KV_BLOCK)``.

    Row i stands at absolute position ``start + i`` and sees itself and the ``window - 1`` positions
    before it, or all of them. Rows that pad see what the last row sees. Of the cache's blocks,
    ``blocks`` from ``first`` on are meant; what lies before must be out of every row's sight.
    """
    padded = padded_rows(rows, group)
    position = torch.arange(start, start + padded, device=like.device).clamp_(max=start + rows - 1)
    key = torch.arange(first * KV_BLOCK, (first + blocks) * KV_BLOCK, device=like.device)
    hidden = key[None, :] > position[:, None]  # (padded, blocks * KV_BLOCK)
    if window is not None:
        hidden |= key[None, :] <= position[:, None] - window
    bias = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    bias.masked_fill_(hidden, float("-inf"))
    return bias.view(padded, blocks, 1, KV_BLOCK).permute(1, 2, 0, 3).repeat(1, 1, group, 1)


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
    ``keys``, ``values``: (blocks, kv_heads, KV_BLOCK, head_dim), finite everywhere.
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


def attend_singly(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor, cap: float | None = None
) -> Tensor:
    """``attend`` with one row in each call: the same shape for every row, however many there are."""
    group = query.shape[1] // keys.shape[1]
    alone = group * padded_rows(1, group)
    return torch.cat(
        [
            attend(one, keys, values, bias[:, :, row : row + 1].expand(-1, -1, alone, -1), cap)
            for row, one in enumerate(query.split(1))
        ]
    )


_row_independent: dict[tuple[int, int, int, torch.dtype, str], bool] = {}


def choose_attend(
    heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> Attend:
    """``attend`` where it is row-independent for such heads on this machine; tried once."""
    key = (heads, kv_heads, head_dim, dtype, device.type)
    if key not in _row_independent:
        _row_independent[key] = _is_row_independent(heads, kv_heads, head_dim, dtype, device)
        if not _row_independent[key]:
            log.warning(
                "This machine computes attention (%d heads of %d, %s) with other bits when other "
                "rows stand beside a row. It is done row by row: the words stay right, but "
                "checking drafted tokens takes longer.",
                heads,
                head_dim,
                dtype,
            )
    return attend if _row_independent[key] else attend_singly


def _is_row_independent(
    heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> bool:
    """Whether rows inside the first block and at the borders behind it have the bits they have alone.

    Some milliseconds: two KV heads, three numbers of blocks and a few row counts stand for all. Where
    BLAS multiplies bf16 by AMX, heads of 8 numbers are added up otherwise beside others.
    """
    generator = torch.Generator().manual_seed(0)
    group, kv_heads = heads // kv_heads, min(kv_heads, 2)
    heads = group * kv_heads
    count, most = 16, 3
    query, keys, values = (
        torch.randn(shape, generator=generator).to(device, dtype)
        for shape in (
            (count, heads, head_dim),
            (most, kv_heads, KV_BLOCK, head_dim),
            (most, kv_heads, KV_BLOCK, head_dim),
        )
    )

    # Scores are what is left of large numbers that cancel: in others, rounded to bf16, another order of
    # summation shows once in thousands.
    pairs = head_dim // 2
    size = 2.0 ** torch.linspace(12, 0, pairs).round().to(device, dtype)
    query[..., 1 : 2 * pairs : 2] = query[..., : 2 * pairs : 2]
    keys[..., : 2 * pairs : 2] *= size
    keys[..., 1 : 2 * pairs - 2 : 2] = -keys[..., : 2 * pairs - 2 : 2]

    def rows(first: int, start: int, end: int) -> Tensor:
        blocks = -(-(first + end) // KV_BLOCK)
        bias = causal_bias(first + start, end - start, group, blocks, keys)
        return attend(query[start:end], keys[:blocks], values[:blocks], bias)

    for first in (100, KV_BLOCK - 3, 2 * KV_BLOCK - 3):
        alone = torch.cat([rows(first, row, row + 1) for row in range(count)])
        for end in (2, 3, 4, 5, 7, 8, 12, count):
            if not torch.equal(rows(first, 0, end), alone[:end]):
                return False
    return True
