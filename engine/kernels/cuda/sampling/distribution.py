"""Compute truncated probabilities from logits in two launches: adjust, then truncate.

``adjust_kernel`` applies bias, penalties, grammar mask and temperature, and finds each tile's largest
value. The torch reference of bias and penalties is ``Sampler.adjusted`` in ``engine.decoding.sampling``.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.sampling.state import BINS, TILE, Distribution, SamplingState, Scratch
from engine.kernels.cuda.sampling.truncation import TRUNCATE_WARPS, truncate_kernel

_TILE, _BINS = tl.constexpr(TILE), tl.constexpr(BINS)
ADJUST_WARPS = 8


@triton.jit(do_not_specialize=["first"])
def adjust_kernel(
    logits: tl.tensor,  # (rows, vocabulary) bf16, fp16 or fp32
    stride: tl.tensor,
    vocabulary: tl.tensor,
    first: tl.tensor,  # drafted tokens before row 0
    numbers: tl.tensor,
    settings: tl.tensor,
    drafted: tl.tensor,
    seen: tl.tensor,
    bias: tl.tensor,
    allowed: tl.tensor,  # int32 (rows, words): a bit for each token; unused without MASKED
    words: tl.tensor,
    adjusted: tl.tensor,  # float32 (rows, vocabulary), written
    tile_max: tl.tensor,
    tile_argmax: tl.tensor,
    bins: tl.tensor,
    totals: tl.tensor,
    MASKED: tl.constexpr,
    GREEDY: tl.constexpr,
) -> None:
    """Apply bias, penalties, mask and temperature; grid (rows, tiles). Also clear the row's histogram."""
    row, tile, rows = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    tokens = tile * _TILE + tl.arange(0, _TILE)
    inside = tokens < vocabulary
    x = tl.load(logits + row * stride + tokens, inside, other=float("-inf")).to(tl.float32)
    x += tl.load(bias + tokens, inside, other=0.0)
    repetition = tl.load(settings + 3).to(tl.float32)
    presence = tl.load(settings + 4).to(tl.float32)
    frequency = tl.load(settings + 5).to(tl.float32)
    if (repetition != 1.0) | (presence != 0.0) | (frequency != 0.0):
        counts = tl.load(seen + tokens, inside, other=0)
        for node in range(0, first + row):
            hit = (tokens == tl.load(drafted + node)).to(tl.int32)
            counts = tl.maximum(counts, hit) + hit
        scaled = tl.where(x > 0, tl.div_rn(x, repetition), x * repetition)
        cost = (counts - 1).to(tl.float32) * frequency + presence
        x = tl.where(counts > 0, scaled, x) - tl.where(counts > 1, cost, 0.0)
    if MASKED:
        bits = tl.load(allowed + row * words + tokens // 32, inside, other=0)
        x = tl.where(((bits >> (tokens % 32)) & 1) != 0, x, float("-inf"))
    if not GREEDY:
        x = tl.div_rn(x, tl.load(settings).to(tl.float32))
    tl.store(adjusted + row * vocabulary + tokens, x, inside)
    broken = tl.max((x != x).to(tl.int32), 0)
    largest, at = tl.max(x, 0, return_indices=True, return_indices_tie_break_left=True)
    offset = row * tl.num_programs(1) + tile
    tl.store(tile_max + offset, tl.where(broken != 0, float("inf"), largest))
    tl.store(tile_argmax + offset, tile * _TILE + at)
    each = tl.arange(0, _BINS)
    own = each % tl.num_programs(1) == tile
    tl.store(bins + row * _BINS + each, tl.zeros([_BINS], tl.int64), own)
    tl.store(bins + (rows + row) * _BINS + each, tl.zeros([_BINS], tl.int64), own)
    if tile == 0:
        tl.store(totals + row, tl.zeros([], tl.int64))


def compute_distribution(
    logits: Tensor,
    state: SamplingState,
    out: Distribution,
    scratch: Scratch,
    *,
    first: int = 0,
    allowed: Tensor | None = None,
    greedy: bool = False,
) -> None:
    """Write the truncated probabilities of ``logits`` (rows, at least vocabulary) to ``out``.

    Row i follows ``first + i`` drafted tokens. ``allowed`` is a grammar's bitmask, int32 (rows,
    ceil(vocabulary / 32)), lowest bit first. ``greedy`` skips the temperature; truncations must then be
    off.
    """
    rows, vocabulary = len(logits), len(state.seen)
    tiles = triton.cdiv(vocabulary, TILE)
    grid = (rows, tiles)
    mask = state.seen if allowed is None else allowed
    adjust_kernel[grid](
        logits, logits.stride(0), vocabulary, first,
        state.numbers, state.settings, state.drafted, state.seen, state.bias,
        mask, mask.stride(0),
        out.weights, scratch.tile_max, scratch.tile_argmax, scratch.bins, scratch.totals,
        MASKED=allowed is not None, GREEDY=greedy, num_warps=ADJUST_WARPS, enable_fp_fusion=False,
    )  # fmt: skip
    truncate_kernel[grid](
        vocabulary, state.numbers, state.settings, out.weights,
        scratch.tile_max, scratch.bins, scratch.totals, scratch.candidates, scratch.candidate_count,
        scratch.finished, out.threshold, out.mass,
        TILES=triton.next_power_of_2(tiles), num_warps=TRUNCATE_WARPS, enable_fp_fusion=False,
    )  # fmt: skip
