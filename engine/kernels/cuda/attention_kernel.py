"""Attention of a few rows over a long cache, in two launches: one sums parts of it, one combines these.

Sources: Dao 2022 (FlashAttention, the running softmax), Dao et al. 2023 (Flash-Decoding, the splits).

A part is every n-th split, where n is a model's own. So grid and workspace are those of at most n splits,
and how many splits a program reads follows from the length on the device.

A row's bits depend only on its own query and the positions it sees:

- splits and tiles start at multiples of their size, counted from position 0;
- a part sums its splits in ascending order, and runs all tiles of each, so a row goes through the same
  operations whether or not its call stores later positions; those it does not see add exact zeros;
- the combination adds the parts that the row itself sees, in chunks that start at absolute parts;
- in a tree a row sees its ancestors, loaded to the positions that they have in a chain: one row of a tile
  after the other adds its own, which are exact zeros for the rest;
- nothing that changes between calls is a compile-time constant: Triton would specialise M = 1.

The tensor cores compute each row of a tile from that row alone; tests on a device check that.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.values import MAX_ROWS

_LOG2_E = tl.constexpr(1.4426950408889634)
_MOST = tl.constexpr(MAX_ROWS)


@triton.jit
def _first_split(least: tl.tensor, part: tl.tensor, parts: tl.tensor) -> tl.tensor:
    """Return the first split of a part that is not below ``least``."""
    return least + (part + parts - least % parts) % parts


@triton.jit
def _soft_cap(scores: tl.tensor, CAP: tl.constexpr) -> tl.tensor:
    """Return cap * tanh(scores / cap). The exponential may overflow, which correctly gives the cap."""
    return CAP * (1 - 2 / (tl.exp2(scores * (2 * _LOG2_E / CAP)) + 1))


@triton.jit
def _add_tile(
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    key_scales: tl.tensor,
    value_scales: tl.tensor,
    slot: tl.tensor,  # (POSITIONS,): where each position is stored
    in_cache: tl.tensor,
    seen: tl.tensor,  # (ROWS, POSITIONS)
    width: tl.tensor,
    inside: tl.tensor,
    m_i: tl.tensor,
    l_i: tl.tensor,
    acc: tl.tensor,
    WIDTH: tl.constexpr,
    CAP: tl.constexpr,
    SCALED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return the running maximum, sum and weighted values with a tile of positions."""
    kv_offset = slot[:, None] * WIDTH + width[None, :]
    kv_mask = in_cache[:, None] & inside[None, :]
    k = tl.load(keys + kv_offset, mask=kv_mask, other=0.0)
    scores = tl.dot(q, tl.trans(k.to(q.dtype)))  # (ROWS, POSITIONS) float32
    if SCALED:
        scores *= tl.load(key_scales + slot, mask=in_cache, other=0.0)[None, :]
    if CAP > 0:
        scores = _soft_cap(scores, CAP)
    scores = tl.where(seen, scores * _LOG2_E, float("-inf"))

    m_new = tl.maximum(m_i, tl.max(scores, 1))
    m_finite = tl.where(m_new == float("-inf"), 0.0, m_new)  # -inf - -inf would be NaN
    weight = tl.exp2(scores - m_finite[:, None])
    alpha = tl.exp2(m_i - m_finite)
    l_i = l_i * alpha + tl.sum(weight, 1)
    v = tl.load(values + kv_offset, mask=kv_mask, other=0.0)
    if SCALED:
        weight *= tl.load(value_scales + slot, mask=in_cache, other=0.0)[None, :]
    acc = tl.dot(weight.to(q.dtype), v.to(q.dtype), acc * alpha[:, None])
    return m_new, l_i, acc


@triton.jit
def _sees(key: tl.tensor, position: tl.tensor, last: tl.tensor, WINDOW: tl.constexpr) -> tl.tensor:
    """Return which keys each row sees: (ROWS, POSITIONS)."""
    seen = key[None, :] <= last[:, None]
    if WINDOW:
        seen &= key[None, :] > position[:, None] - WINDOW
    return seen


@triton.jit(do_not_specialize=["rows", "capacity", "parts"])
def attend_splits(
    query: tl.tensor,  # (rows, HEADS, WIDTH) bf16, scaled
    keys: tl.tensor,  # (kv_heads, capacity, WIDTH) bf16 or fp8
    values: tl.tensor,  # the same
    key_scales: tl.tensor,  # (kv_heads, capacity) float32; unused unless SCALED
    value_scales: tl.tensor,
    length: tl.tensor,  # (1,) int32: the position of row 0
    acc_out: tl.tensor,  # (rows, HEADS, parts, WIDTH) float32: sums of weighted values
    m_out: tl.tensor,  # (rows, HEADS, parts) float32: the highest score, times log2(e)
    l_out: tl.tensor,  # (rows, HEADS, parts) float32: sums of weights
    tree: tl.tensor,  # see trees.py; unused unless TREE
    rows: tl.tensor,
    capacity: tl.tensor,
    parts: tl.tensor,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads per KV head
    WIDTH: tl.constexpr,  # of a head
    PADDED: tl.constexpr,  # the power of two >= WIDTH
    ROWS: tl.constexpr,  # rows times group in a tile
    POSITIONS: tl.constexpr,  # of a tile
    SPLIT: tl.constexpr,  # positions
    WINDOW: tl.constexpr,  # 0: none
    CAP: tl.constexpr,  # 0: none
    CAUSAL: tl.constexpr,  # else each row sees what the last one sees
    SCALED: tl.constexpr,
    TREE: tl.constexpr,
) -> None:
    """Write the attention of a tile of rows over one part. Program: (tile, KV head, part).

    Where a row sees nothing of the part, its result is undefined and ``combine_parts`` skips it.
    """
    tile, kv_head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = tl.load(length)
    highest = start + rows - 1
    if CAUSAL:
        highest = start + tl.minimum((tile * ROWS + ROWS - 1) // GROUP, rows - 1)
    lowest = 0
    if WINDOW:
        lowest = tl.maximum(start + (0 if TREE else tile * ROWS // GROUP) - WINDOW + 1, 0)
    first_split = _first_split(lowest // SPLIT, part, parts)
    if first_split * SPLIT > highest:
        return

    tile_row = tile * ROWS + tl.arange(0, ROWS)
    row, head = tile_row // GROUP, kv_head * GROUP + tile_row % GROUP
    present = row < rows
    position = start + row
    if TREE:
        position = start + tl.load(tree + row, mask=present, other=0)
    last = position if CAUSAL else tl.maximum(position, highest)
    width = tl.arange(0, PADDED)
    inside = width < WIDTH
    query_index = row * HEADS + head
    q = tl.load(
        query + query_index[:, None] * WIDTH + width[None, :],
        mask=present[:, None] & inside[None, :],
        other=0.0,
    )

    stored = tl.minimum(start + rows, capacity)
    # Only the base needs 64 bits; the many offsets within a head fit in 32.
    first = kv_head.to(tl.int64) * capacity
    keys += first * WIDTH
    values += first * WIDTH
    m_i = tl.full([ROWS], float("-inf"), tl.float32)
    l_i = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, PADDED], tl.float32)
    key_scales += first
    value_scales += first
    after = start // SPLIT if TREE else highest // SPLIT + 1
    for split in range(first_split, after, parts):
        for offset in range(0, SPLIT, POSITIONS):
            key = split * SPLIT + offset + tl.arange(0, POSITIONS)
            m_i, l_i, acc = _add_tile(
                q, keys, values, key_scales, value_scales, key, key < stored,
                _sees(key, position, last, WINDOW), width, inside, m_i, l_i, acc,
                WIDTH, CAP, SCALED,
            )  # fmt: skip
    if TREE:
        last_row = highest - start
        for split in range(_first_split(after, part, parts), highest // SPLIT + 1, parts):
            for offset in range(0, SPLIT, POSITIONS):
                key = split * SPLIT + offset + tl.arange(0, POSITIONS)
                drafted = key - start
                shared = split * SPLIT + offset + POSITIONS <= start
                first_row = tile * ROWS // GROUP
                for branch in range(first_row, tl.where(shared, first_row, last_row) + 1):
                    within = (drafted >= 0) & (drafted < _MOST)
                    ancestor = tl.load(tree + (branch + 1) * _MOST + drafted, mask=within, other=0)
                    slot = tl.where(drafted < 0, key, start + ancestor)
                    seen = _sees(key, position, last, WINDOW) & (shared | (row == branch))[:, None]
                    m_i, l_i, acc = _add_tile(
                        q, keys, values, key_scales, value_scales, slot, slot < stored, seen,
                        width, inside, m_i, l_i, acc, WIDTH, CAP, SCALED,
                    )  # fmt: skip

    slot = query_index.to(tl.int64) * parts + part
    tl.store(
        acc_out + slot[:, None] * WIDTH + width[None, :],
        acc,
        mask=present[:, None] & inside[None, :],
    )
    tl.store(m_out + slot, m_i, mask=present)
    tl.store(l_out + slot, l_i, mask=present)


@triton.jit(do_not_specialize=["parts"])
def combine_parts(
    acc_in: tl.tensor,  # from attend_splits
    m_in: tl.tensor,
    l_in: tl.tensor,
    sinks: tl.tensor,  # (HEADS,) float32; unused unless SINKS
    length: tl.tensor,
    out: tl.tensor,  # (rows, HEADS, WIDTH) bf16
    tree: tl.tensor,  # as in attend_splits
    parts: tl.tensor,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    SPLIT: tl.constexpr,
    CHUNK: tl.constexpr,  # parts that are added up at once
    WINDOW: tl.constexpr,
    CAUSAL: tl.constexpr,
    SINKS: tl.constexpr,
    TREE: tl.constexpr,
) -> None:
    """Add up the parts that a row sees, in a fixed order. Program: (row, head)."""
    row, head = tl.program_id(0), tl.program_id(1)
    position = tl.load(length) + (tl.load(tree + row) if TREE else row)
    end = position if CAUSAL else position + tl.num_programs(0) - 1 - row
    last = end // SPLIT
    first = 0
    if WINDOW:
        first = tl.maximum(position - WINDOW + 1, 0) // SPLIT
    begin = tl.where(last < parts, first // CHUNK * CHUNK, 0)  # else all parts may be seen
    stop = tl.minimum(last + 1, parts)
    slot = (row.to(tl.int64) * HEADS + head) * parts
    width = tl.arange(0, PADDED)
    inside = width < WIDTH

    m_splits = tl.full([CHUNK], float("-inf"), tl.float32)
    for chunk in range(begin, stop, CHUNK):
        part = chunk + tl.arange(0, CHUNK)
        seen = (part < parts) & (_first_split(first, part, parts) <= last)
        m_i = tl.load(m_in + slot + part, mask=seen, other=float("-inf"))
        m_splits = tl.maximum(m_splits, m_i)
    m_total = tl.max(m_splits, 0)  # exact in any order
    l_total = 0.0
    if SINKS:
        sink = tl.load(sinks + head) * _LOG2_E
        m_total = tl.maximum(m_total, sink)
        l_total += tl.exp2(sink - m_total)

    acc_total = tl.zeros([PADDED], tl.float32)
    for chunk in range(begin, stop, CHUNK):
        part = chunk + tl.arange(0, CHUNK)
        seen = (part < parts) & (_first_split(first, part, parts) <= last)
        m_i = tl.load(m_in + slot + part, mask=seen, other=float("-inf"))
        alpha = tl.exp2(m_i - m_total)  # 0 where the row sees nothing
        l_total += tl.sum(alpha * tl.load(l_in + slot + part, mask=seen, other=0.0), 0)
        acc = tl.load(
            acc_in + (slot + part)[:, None] * WIDTH + width[None, :],
            mask=seen[:, None] & inside[None, :],
            other=0.0,
        )
        acc_total += tl.sum(alpha[:, None] * acc, 0)
    offset = (row.to(tl.int64) * HEADS + head) * WIDTH + width
    tl.store(out + offset, (acc_total / l_total).to(out.dtype.element_ty), mask=inside)
