"""Attention of a few rows over a long cache, in two launches: every split, then their sum.

Sources: Dao 2022 (FlashAttention, the running softmax), Dao et al. 2023 (Flash-Decoding, the splits).

What a row's bits depend on is kept to its own query and what it may see:

- splits and tiles start at multiples of their size, counted from position 0;
- every split runs all of its tiles, so a row goes through the same operations whether or not its
  call stores positions behind it; there, exact zeros are added;
- the combination takes the splits that the row itself sees, in chunks that start at absolute splits;
- nothing that changes from call to call is compiled in: Triton would make another kernel for M = 1.

The tensor cores compute each row of a tile from that row alone; tests on a device watch over that.
"""

from __future__ import annotations

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _squashed(scores: tl.tensor, CAP: tl.constexpr) -> tl.tensor:
    """cap * tanh(scores / cap); the exponential may overflow, which gives the cap, as it should."""
    return CAP * (1 - 2 / (tl.exp2(scores * (2 * _LOG2_E / CAP)) + 1))


@triton.jit(do_not_specialize=["rows", "capacity", "splits"])
def attend_splits(
    query: tl.tensor,  # (rows, HEADS, WIDTH) bf16, scaled
    keys: tl.tensor,  # (kv_heads, capacity, WIDTH) bf16 or fp8
    values: tl.tensor,  # the same
    key_scales: tl.tensor,  # (kv_heads, capacity) float32; unused unless SCALED
    value_scales: tl.tensor,
    length: tl.tensor,  # (1,) int32: the position of row 0
    mixed_out: tl.tensor,  # (rows, HEADS, splits, WIDTH) float32: sums of weighted values
    peak_out: tl.tensor,  # (rows, HEADS, splits) float32: the highest score, times log2(e)
    norm_out: tl.tensor,  # (rows, HEADS, splits) float32: sums of weights
    rows: tl.tensor,
    capacity: tl.tensor,
    splits: tl.tensor,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads per KV head
    WIDTH: tl.constexpr,  # of a head
    PADDED: tl.constexpr,  # the power of two >= WIDTH
    ROWS: tl.constexpr,  # rows times group in a tile
    POSITIONS: tl.constexpr,  # of a tile
    SPLIT: tl.constexpr,  # positions
    WINDOW: tl.constexpr,  # 0: none
    CAP: tl.constexpr,  # 0: none
    SCALED: tl.constexpr,
) -> None:
    """Program (tile of rows, KV head, split); writes what its rows see of the split.

    Where a row sees nothing, what is written or left means nothing: ``combine_splits`` skips it.
    """
    tile, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = tl.load(length)
    begin = split * SPLIT
    highest = start + tl.minimum((tile * ROWS + ROWS - 1) // GROUP, rows - 1)
    if begin > highest:
        return
    if WINDOW:
        lowest = start + tile * ROWS // GROUP - WINDOW + 1
        if begin + SPLIT <= lowest:
            return

    lane = tile * ROWS + tl.arange(0, ROWS)
    row, head = lane // GROUP, kv_head * GROUP + lane % GROUP
    present = row < rows
    position = start + row
    width = tl.arange(0, PADDED)
    inside = width < WIDTH
    place = row * HEADS + head
    q = tl.load(
        query + place[:, None] * WIDTH + width[None, :],
        mask=present[:, None] & inside[None, :],
        other=0.0,
    )

    stored = tl.minimum(start + rows, capacity)
    # Only these need 64 bits; offsets within a head, of which a thread holds many, fit in 32.
    first = kv_head.to(tl.int64) * capacity
    keys += first * WIDTH
    values += first * WIDTH
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    norm = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, PADDED], tl.float32)
    for offset in range(0, SPLIT, POSITIONS):
        key = begin + offset + tl.arange(0, POSITIONS)
        there = key < stored
        at = key[:, None] * WIDTH + width[None, :]
        readable = there[:, None] & inside[None, :]
        k = tl.load(keys + at, mask=readable, other=0.0)
        scores = tl.dot(q, tl.trans(k.to(q.dtype)))  # (ROWS, POSITIONS) float32
        if SCALED:
            scores *= tl.load(key_scales + first + key, mask=there, other=0.0)[None, :]
        if CAP > 0:
            scores = _squashed(scores, CAP)
        seen = key[None, :] <= position[:, None]
        if WINDOW:
            seen &= key[None, :] > position[:, None] - WINDOW
        scores = tl.where(seen, scores * _LOG2_E, float("-inf"))

        raised = tl.maximum(peak, tl.max(scores, 1))
        anchor = tl.where(raised == float("-inf"), 0.0, raised)  # -inf - -inf would be NaN
        weight = tl.exp2(scores - anchor[:, None])
        faded = tl.exp2(peak - anchor)
        norm = norm * faded + tl.sum(weight, 1)
        v = tl.load(values + at, mask=readable, other=0.0)
        if SCALED:
            weight *= tl.load(value_scales + first + key, mask=there, other=0.0)[None, :]
        mixed = tl.dot(weight.to(q.dtype), v.to(q.dtype), mixed * faded[:, None])
        peak = raised

    slot = place.to(tl.int64) * splits + split
    tl.store(
        mixed_out + slot[:, None] * WIDTH + width[None, :],
        mixed,
        mask=present[:, None] & inside[None, :],
    )
    tl.store(peak_out + slot, peak, mask=present)
    tl.store(norm_out + slot, norm, mask=present)


@triton.jit(do_not_specialize=["splits"])
def combine_splits(
    mixed_in: tl.tensor,  # from attend_splits
    peak_in: tl.tensor,
    norm_in: tl.tensor,
    length: tl.tensor,
    out: tl.tensor,  # (rows, HEADS, WIDTH) bf16
    splits: tl.tensor,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    SPLIT: tl.constexpr,
    CHUNK: tl.constexpr,  # splits that are added up at once
    WINDOW: tl.constexpr,
) -> None:
    """Program (row, head): the splits that the row sees, added up in a fixed order."""
    row, head = tl.program_id(0), tl.program_id(1)
    position = tl.load(length) + row
    last = tl.minimum(position // SPLIT, splits - 1)
    first = 0
    if WINDOW:
        first = tl.maximum(position - WINDOW + 1, 0) // SPLIT
    begin = first // CHUNK * CHUNK
    slot = (row.to(tl.int64) * HEADS + head) * splits
    width = tl.arange(0, PADDED)
    inside = width < WIDTH

    peaks = tl.full([CHUNK], float("-inf"), tl.float32)
    for chunk in range(begin, last + 1, CHUNK):
        split = chunk + tl.arange(0, CHUNK)
        seen = (split >= first) & (split <= last)
        peak = tl.load(peak_in + slot + split, mask=seen, other=float("-inf"))
        peaks = tl.maximum(peaks, peak)
    top = tl.max(peaks, 0)  # exact in any order

    norm = 0.0
    total = tl.zeros([PADDED], tl.float32)
    for chunk in range(begin, last + 1, CHUNK):
        split = chunk + tl.arange(0, CHUNK)
        seen = (split >= first) & (split <= last)
        peak = tl.load(peak_in + slot + split, mask=seen, other=float("-inf"))
        share = tl.exp2(peak - top)  # 0 where the row sees nothing
        norm += tl.sum(share * tl.load(norm_in + slot + split, mask=seen, other=0.0), 0)
        mixed = tl.load(
            mixed_in + (slot + split)[:, None] * WIDTH + width[None, :],
            mask=seen[:, None] & inside[None, :],
            other=0.0,
        )
        total += tl.sum(share[:, None] * mixed, 0)
    place = (row.to(tl.int64) * HEADS + head) * WIDTH + width
    tl.store(out + place, (total / norm).to(out.dtype.element_ty), mask=inside)
