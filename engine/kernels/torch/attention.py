"""Attention over a static KV cache, with the same bits for any number of query rows.

``scaled_dot_product_attention`` sums in an order that depends on the shape of the call. Here the KV
cache is divided into pages of 256 absolute positions. Scores and weighted values are computed per page,
always in the same shape, and added up from the first page to the last. A page that lies wholly in a row's
future, or before its window, adds exactly zero. So neither a longer cache nor more rows change a result,
and pages that no row sees can be left out.

This holds where BLAS takes one path for all padded row counts. ``choose_attend`` tests that, and returns
``attend_rowwise`` on a machine where it does not hold. On a GPU, libraries choose their kernels by the
size of each call; there ``attend_by_page`` makes all calls of 16 rows and one page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.values import MAX_ROWS

log = logging.getLogger(__name__)

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, float | None, Tensor | None], Tensor]
"""Maps query, keys, values, bias, cap and sinks to the attention output, as ``attend`` does."""

PAGE_SIZE = 256
"""Positions per KV page."""
ROW_QUANTUM = 4
"""Query rows per KV head are padded to a multiple of this: with fewer, BLAS takes another path."""


def first_page(start: int, window: int | None) -> int:
    """Return the first page that a row at ``start``, or a later one, may see."""
    return 0 if window is None else max(start - window + 1, 0) // PAGE_SIZE


def causal_bias(
    start: int,
    rows: int,
    group: int,
    pages: int,
    like: Tensor,
    *,
    first: int = 0,
    window: int | None = None,
) -> Tensor:
    """Return 0 where a row may look, -inf elsewhere: ``(pages, 1, group * padded rows, PAGE_SIZE)``.

    Row i stands at absolute position ``start + i`` and sees itself and the ``window - 1`` positions
    before it, or all of them. Padding rows see what the last row sees. The bias covers ``pages`` pages of
    the cache from page ``first`` on; no row may see an earlier one.
    """
    padded = padded_rows(rows, group)
    position = torch.arange(start, start + padded, device=like.device).clamp_(max=start + rows - 1)
    key = torch.arange(first * PAGE_SIZE, (first + pages) * PAGE_SIZE, device=like.device)
    hidden = key[None, :] > position[:, None]  # (padded, pages * PAGE_SIZE)
    if window is not None:
        hidden |= key[None, :] <= position[:, None] - window
    bias = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    bias.masked_fill_(hidden, float("-inf"))
    return bias.view(padded, pages, 1, PAGE_SIZE).permute(1, 2, 0, 3).repeat(1, 1, group, 1)


def padded_rows(rows: int, group: int) -> int:
    """Return the least count >= ``rows`` for which ``group * count`` is a multiple of ROW_QUANTUM."""
    while rows * group % ROW_QUANTUM:
        rows += 1
    return rows


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor,
    cap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Return attention of scaled queries over KV pages, summed in float32 in page order.

    ``query``: (rows, heads, head_dim), already multiplied by the scale of the scores.
    ``keys``, ``values``: (pages, kv_heads, PAGE_SIZE, head_dim), finite everywhere.
    ``bias``: from ``causal_bias``. With a ``cap``, a score s becomes cap * tanh(s / cap).
    ``sinks`` (heads,): scores that take part in the softmax, without values.
    Result: (rows, heads * head_dim).
    """
    rows, heads, width = query.shape
    pages, kv_heads = keys.shape[:2]
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
    m_i = scores.amax(-1, keepdim=True).amax(0, keepdim=True)  # exact in any order
    if sinks is not None:
        sink = sinks.view(kv_heads, group, 1).expand(-1, -1, padded).reshape(kv_heads, -1, 1)
        m_i = torch.maximum(m_i, sink)
    p = torch.exp(scores - m_i)
    l_pages = p.sum(-1, keepdim=True)  # (pages, kv_heads, group * padded, 1)
    acc_pages = torch.matmul(p.to(values.dtype), values).float()

    acc, l_i = acc_pages[0], l_pages[0]
    for page in range(1, pages):
        acc, l_i = acc + acc_pages[page], l_i + l_pages[page]
    if sinks is not None:
        l_i = l_i + torch.exp(sink - m_i[0])
    out = (acc / l_i).to(values.dtype)  # (kv_heads, group * padded, head_dim)
    out = out.view(kv_heads, group, padded, width).permute(2, 0, 1, 3).reshape(padded, -1)
    return out[:rows]


def attend_by_page(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor,
    cap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Do as ``attend`` for up to 16 rows, by calls whose shape depends on neither rows nor pages.

    More rows are a prompt's, which is always cut in the same way.
    """
    rows, heads, width = query.shape
    if rows > MAX_ROWS:
        return attend(query, keys, values, bias, cap, sinks)
    kv_heads = keys.shape[1]
    group, last = heads // kv_heads, bias.shape[2] // (heads // kv_heads) - 1
    query = F.pad(query, (0, 0, 0, 0, 0, MAX_ROWS - rows)).view(MAX_ROWS, kv_heads, group, width)
    query = query.permute(1, 2, 0, 3).reshape(kv_heads, group * MAX_ROWS, width)
    seen = torch.arange(MAX_ROWS, device=query.device).clamp_max(last)
    scores = []
    for page, hidden in zip(keys, bias.unflatten(2, (group, -1)), strict=True):
        score = torch.bmm(query, page.transpose(-1, -2)).float()
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        scores.append(score + hidden[:, :, seen].flatten(1, 2).float())
    m_i = torch.stack([score.amax(-1, keepdim=True) for score in scores]).amax(0)  # exact
    sink = None
    if sinks is not None:
        sink = sinks.view(kv_heads, group, 1).expand(-1, -1, MAX_ROWS).reshape(kv_heads, -1, 1)
        m_i = torch.maximum(m_i, sink)
    acc = torch.zeros_like(query, dtype=torch.float32)
    l_i = torch.zeros_like(m_i)
    for score, page in zip(scores, values, strict=True):
        p = torch.exp(score - m_i)
        acc, l_i = acc + torch.bmm(p.to(page.dtype), page).float(), l_i + p.sum(-1, keepdim=True)
    if sink is not None:
        l_i = l_i + torch.exp(sink - m_i)
    out = (acc / l_i).to(values.dtype).view(kv_heads, group, MAX_ROWS, width)
    return out.permute(2, 0, 1, 3).reshape(MAX_ROWS, -1)[:rows]


def attend_rowwise(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor,
    cap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Call ``attend`` for each row alone, so that every call has the same shape."""
    group = query.shape[1] // keys.shape[1]
    alone = group * padded_rows(1, group)
    return torch.cat(
        [
            attend(
                one, keys, values, bias[:, :, row : row + 1].expand(-1, -1, alone, -1), cap, sinks
            )
            for row, one in enumerate(query.split(1))
        ]
    )


_row_independent: dict[tuple[int, int, int, torch.dtype, str], bool] = {}


def choose_attend(
    heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> Attend:
    """Return ``attend`` if it is row-independent for such heads on this machine; tested once.

    On a GPU return ``attend_by_page``.
    """
    if device.type != "cpu":
        return attend_by_page
    key = (heads, kv_heads, head_dim, dtype, device.type)
    if key not in _row_independent:
        _row_independent[key] = _is_row_independent(heads, kv_heads, head_dim, dtype, device)
        if not _row_independent[key]:
            log.warning(
                "On this machine, attention results (%d heads of %d, %s) depend on the batch. "
                "Rows are computed one by one: the text stays right, but checking drafts is "
                "slower.",
                heads,
                head_dim,
                dtype,
            )
    return attend if _row_independent[key] else attend_rowwise


def _is_row_independent(
    heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> bool:
    """Return whether rows in the first page and at the next borders have the bits they have alone.

    This takes some milliseconds: two KV heads, up to three pages and a few row counts stand for all.
    Where BLAS multiplies bf16 by AMX, it sums heads of 8 numbers in another order beside other rows.
    """
    generator = torch.Generator().manual_seed(0)
    group, kv_heads = heads // kv_heads, min(kv_heads, 2)
    heads = group * kv_heads
    count, most = 16, 3
    query, keys, values = (
        torch.randn(shape, generator=generator).to(device, dtype)
        for shape in ((count, heads, head_dim), *[(most, kv_heads, PAGE_SIZE, head_dim)] * 2)
    )

    # Each score is what is left of large numbers that cancel. With other scores, rounded to bf16, another
    # order of summation shows once in thousands.
    pairs = head_dim // 2
    size = 2.0 ** torch.linspace(12, 0, pairs).round().to(device, dtype)
    query[..., 1 : 2 * pairs : 2] = query[..., : 2 * pairs : 2]
    keys[..., : 2 * pairs : 2] *= size
    keys[..., 1 : 2 * pairs - 2 : 2] = -keys[..., : 2 * pairs - 2 : 2]

    def rows(first: int, start: int, end: int) -> Tensor:
        pages = -(-(first + end) // PAGE_SIZE)
        bias = causal_bias(first + start, end - start, group, pages, keys)
        return attend(query[start:end], keys[:pages], values[:pages], bias)

    for first in (100, PAGE_SIZE - 3, 2 * PAGE_SIZE - 3):
        alone = torch.cat([rows(first, row, row + 1) for row in range(count)])
        for end in (2, 3, 4, 5, 7, 8, 12, count):
            if not torch.equal(rows(first, 0, end), alone[:end]):
                return False
    return True
