"""Apply norm and rope and store keys and values, between the QKV projection and attention.

Sources: Su et al. 2021 (rotary positions), Henry et al. 2020 (normalised queries and keys). The two
numbers of a rotated pair are adjacent (engine/models/rotation.py), so a head is ``WIDTH / 2`` pairs.
"""

from __future__ import annotations

import triton
import triton.language as tl

_FP8_LIMIT = tl.constexpr(448.0)


@triton.jit
def _store_pairs(
    out: tl.tensor,
    scale_out: tl.tensor,
    even: tl.tensor,
    odd: tl.tensor,
    pair: tl.tensor,
    inside: tl.tensor,
    SCALED: tl.constexpr,
) -> None:
    """Write a head; in fp8, divide it by its own scale and write that too."""
    if SCALED:
        highest = tl.max(tl.maximum(tl.abs(even), tl.abs(odd)), 0)
        scale = tl.maximum(highest, 1e-30) / _FP8_LIMIT
        tl.store(scale_out, scale)
        # A quotient may round to just above the limit, and e4m3 has no infinity.
        even = tl.clamp(even / scale, -_FP8_LIMIT, _FP8_LIMIT)
        odd = tl.clamp(odd / scale, -_FP8_LIMIT, _FP8_LIMIT)
    dtype = out.dtype.element_ty
    tl.store(out + 2 * pair, even.to(dtype), mask=inside)
    tl.store(out + 2 * pair + 1, odd.to(dtype), mask=inside)


@triton.jit
def _norm_factor(
    even: tl.tensor, odd: tl.tensor, epsilon: tl.tensor, WIDTH: tl.constexpr
) -> tl.tensor:
    """Return what RMSNorm multiplies a head by."""
    return 1 / tl.sqrt_rn(tl.sum(even * even + odd * odd, 0) / WIDTH + epsilon)


@triton.jit(do_not_specialize=["capacity"])
def rope_and_store(
    qkv: tl.tensor,  # (rows, HEADS + 2 * KV_HEADS, WIDTH) bf16
    norm: tl.tensor,  # (HEADS + KV_HEADS, WIDTH) float32; unused unless NORMED
    rotation: tl.tensor,  # (capacity or more, WIDTH / 2, 2) float32; unused unless ROTATED
    length: tl.tensor,  # (1,) int32
    query: tl.tensor,  # (rows, HEADS, WIDTH) bf16
    keys: tl.tensor,  # (KV_HEADS, capacity, WIDTH) bf16 or fp8
    values: tl.tensor,
    key_scales: tl.tensor,  # (KV_HEADS, capacity) float32; unused unless SCALED
    value_scales: tl.tensor,
    tree: tl.tensor,  # see trees.py; unused unless TREE
    capacity: tl.tensor,
    epsilon: tl.tensor,
    scale: tl.tensor,  # of the scores
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    PAIRS: tl.constexpr,  # the power of two >= WIDTH / 2
    NORMED: tl.constexpr,
    VALUES_NORMED: tl.constexpr,
    ROTATED: tl.constexpr,
    SCALED: tl.constexpr,
    TREE: tl.constexpr,
) -> None:
    """Norm, rotate and store one head; skip rows beyond the capacity. Program: (row, head of qkv)."""
    row, head = tl.program_id(0), tl.program_id(1)
    position = tl.load(length) + row
    pair = tl.arange(0, PAIRS)
    inside = pair < WIDTH // 2
    source = qkv + (row.to(tl.int64) * (HEADS + 2 * KV_HEADS) + head) * WIDTH
    even = tl.load(source + 2 * pair, mask=inside, other=0.0).to(tl.float32)
    odd = tl.load(source + 2 * pair + 1, mask=inside, other=0.0).to(tl.float32)
    fits = position < capacity

    if head >= HEADS + KV_HEADS:
        if VALUES_NORMED:
            inverse = _norm_factor(even, odd, epsilon, WIDTH)
            even *= inverse
            odd *= inverse
        offset = (head - HEADS - KV_HEADS).to(tl.int64) * capacity + position
        if fits:
            _store_pairs(
                values + offset * WIDTH, value_scales + offset, even, odd, pair, inside, SCALED
            )
        return

    if NORMED:
        inverse = _norm_factor(even, odd, epsilon, WIDTH)
        weight = norm + head * WIDTH + 2 * pair
        even = even * inverse * tl.load(weight, mask=inside, other=0.0)
        odd = odd * inverse * tl.load(weight + 1, mask=inside, other=0.0)
    if ROTATED:
        turn = tl.load(length) + tl.load(tree + row) if TREE else position
        angle = rotation + (tl.minimum(turn, capacity - 1) * (WIDTH // 2) + pair) * 2
        cosine = tl.load(angle, mask=inside, other=1.0)
        sine = tl.load(angle + 1, mask=inside, other=0.0)
        even, odd = even * cosine - odd * sine, even * sine + odd * cosine
    if head < HEADS:
        target = query + (row.to(tl.int64) * HEADS + head) * WIDTH
        _store_pairs(target, target, even * scale, odd * scale, pair, inside, False)
    elif fits:
        offset = (head - HEADS).to(tl.int64) * capacity + position
        _store_pairs(keys + offset * WIDTH, key_scales + offset, even, odd, pair, inside, SCALED)
