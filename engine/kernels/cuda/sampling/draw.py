"""Logits to truncated probabilities in two launches: adjust, then truncate.

``adjust_kernel`` applies penalties, grammar mask and temperature, and finds each block's largest
value. The torch reference of the penalties is ``engine.decoding.sampling``'s ``Sampler.adjusted``.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.sampling.arithmetic import exp_reference
from engine.kernels.cuda.sampling.state import BINS, BLOCK, Distribution, Scratch, State
from engine.kernels.cuda.sampling.truncation import TRUNCATION_WARPS, truncate_kernel

_BLOCK, _BINS = tl.constexpr(BLOCK), tl.constexpr(BINS)
ADJUST_WARPS = 8


@triton.jit(do_not_specialize=["first"])
def adjust_kernel(
    logits: tl.tensor,  # (rows, vocabulary) bf16, fp16 or fp32
    stride: tl.tensor,
    vocabulary: tl.tensor,
    first: tl.tensor,  # the row's place in the round: how many drafted tokens come before row 0
    numbers: tl.tensor,
    settings: tl.tensor,
    drafted: tl.tensor,
    seen: tl.tensor,
    allowed: tl.tensor,  # int32 (rows, words): a bit for each token; unused without MASKED
    words: tl.tensor,
    adjusted: tl.tensor,  # float32 (rows, vocabulary), written
    peaks: tl.tensor,
    peak_tokens: tl.tensor,
    bins: tl.tensor,
    totals: tl.tensor,
    MASKED: tl.constexpr,
    GREEDY: tl.constexpr,
) -> None:
    """Penalties, mask, temperature; grid (rows, blocks). Also empties the row's histogram."""
    row, block, rows = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    tokens = block * _BLOCK + tl.arange(0, _BLOCK)
    inside = tokens < vocabulary
    x = tl.load(logits + row * stride + tokens, inside, other=float("-inf")).to(tl.float32)
    repetition = tl.load(settings + 3).to(tl.float32)
    presence = tl.load(settings + 4).to(tl.float32)
    frequency = tl.load(settings + 5).to(tl.float32)
    if (repetition != 1.0) | (presence != 0.0) | (frequency != 0.0):
        marks = tl.load(seen + tokens, inside, other=0)
        for place in range(0, first + row):
            hit = (tokens == tl.load(drafted + place)).to(tl.int32)
            marks = tl.maximum(marks, hit) + hit
        scaled = tl.where(x > 0, tl.div_rn(x, repetition), x * repetition)
        cost = (marks - 1).to(tl.float32) * frequency + presence
        x = tl.where(marks > 0, scaled, x) - tl.where(marks > 1, cost, 0.0)
    if MASKED:
        bits = tl.load(allowed + row * words + tokens // 32, inside, other=0)
        x = tl.where(((bits >> (tokens % 32)) & 1) != 0, x, float("-inf"))
    if not GREEDY:
        x = tl.div_rn(x, tl.load(settings).to(tl.float32))
    tl.store(adjusted + row * vocabulary + tokens, x, inside)
    broken = tl.max((x != x).to(tl.int32), 0)
    peak, at = tl.max(x, 0, return_indices=True, return_indices_tie_break_left=True)
    place = row * tl.num_programs(1) + block
    tl.store(peaks + place, tl.where(broken != 0, float("inf"), peak))
    tl.store(peak_tokens + place, block * _BLOCK + at)
    each = tl.arange(0, _BINS)
    mine = each % tl.num_programs(1) == block
    tl.store(bins + row * _BINS + each, tl.zeros([_BINS], tl.int64), mine)
    tl.store(bins + (rows + row) * _BINS + each, tl.zeros([_BINS], tl.int64), mine)
    if block == 0:
        tl.store(totals + row, tl.zeros([], tl.int64))


def distribute(
    logits: Tensor,
    state: State,
    out: Distribution,
    scratch: Scratch,
    *,
    first: int = 0,
    allowed: Tensor | None = None,
    greedy: bool = False,
) -> None:
    """Writes the truncated probabilities of ``logits`` (rows, at least vocabulary) to ``out``.

    Row i follows ``first + i`` drafted tokens. ``allowed`` is a grammar's bitmask, int32 (rows,
    ceil(vocabulary / 32)), lowest bit first. ``greedy`` leaves temperature out; the truncations
    must then be off.
    """
    rows, vocabulary = len(logits), len(state.seen)
    blocks = triton.cdiv(vocabulary, BLOCK)
    grid = (rows, blocks)
    mask = state.seen if allowed is None else allowed
    adjust_kernel[grid](
        logits, logits.stride(0), vocabulary, first,
        state.numbers, state.settings, state.drafted, state.seen, mask, mask.stride(0),
        out.weights, scratch.peaks, scratch.peak_tokens, scratch.bins, scratch.totals,
        MASKED=allowed is not None, GREEDY=greedy, num_warps=ADJUST_WARPS, enable_fp_fusion=False,
    )  # fmt: skip
    truncate_kernel[grid](
        vocabulary, state.numbers, state.settings, out.weights,
        scratch.peaks, scratch.bins, scratch.totals, scratch.found, scratch.gathered,
        scratch.finished, out.threshold, out.mass,
        BLOCKS=triton.next_power_of_2(blocks), num_warps=TRUNCATION_WARPS, enable_fp_fusion=False,
    )  # fmt: skip


def weights_reference(adjusted: Tensor) -> Tensor:
    """Logits after penalties and mask, over the temperature, to weights: float32, same shape."""
    return exp_reference(adjusted - adjusted.amax(-1, keepdim=True))
