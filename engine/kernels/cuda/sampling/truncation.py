"""Truncate rows by top-k, top-p and min-p without a sort: the second launch of a round.

``truncate_kernel`` computes weights w = exp(x - max). The last program of a row to finish finds the
threshold, the smallest weight that stays.

Both top-k and top-p keep all values from the smallest v for which the values strictly above v do not
reach a limit: k tokens, or the share top-p of the mass. One search serves both: all programs of the row
fill a histogram of 2,048 bins, the histogram gives the bin of v, and bisection over the weights in this
bin gives the bits of v. Truncation is by value, as in ``decoding/sampling.py``: equal tokens stay or go
together.

Mass is summed in integers; the weight 1 is 2^44. Integer sums have no order, so neither the number of
rows nor the order in which programs finish changes a bit, and torch computes the same sums.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.intrinsics import is_last_program
from engine.kernels.cuda.sampling.arithmetic import exp
from engine.kernels.cuda.sampling.state import BINS, TILE

_TILE, _BINS = tl.constexpr(TILE), tl.constexpr(BINS)
_STEP = tl.constexpr(4096)
"""Tokens that one program reads at once of a whole row."""
_BIN_SHIFT = tl.constexpr(17)
_BIN_WIDTH = tl.constexpr(1 << 17)
_TOP_BIN = tl.constexpr(0x3F800000 >> 17)
TRUNCATE_WARPS = 16
"""With 8 the compiler spills on sm_90 and sm_120 (Triton 3.9)."""
MASS_ONE = 2.0**44
"""The mass of weight 1: a quarter of a million of them still fit 63 bits."""
_MASS_ONE = tl.constexpr(MASS_ONE)


@triton.jit
def mass_of(weights: tl.tensor) -> tl.tensor:
    """Return float32 weights in [0, 1] as integers; those below 2^-44 become 0."""
    return (weights * _MASS_ONE).to(tl.int64)


@triton.jit
def _bin_of(bits: tl.tensor) -> tl.tensor:
    return tl.minimum(-(bits >> _BIN_SHIFT) + _TOP_BIN, _BINS - 1)


@triton.jit
def _gather(
    weights: tl.tensor,
    candidates: tl.tensor,
    candidate_count: tl.tensor,
    vocabulary: tl.tensor,
    target_bin: tl.tensor,
) -> tl.tensor:
    """Write the bits of all weights in one bin to ``candidates``, in any order; return their number.

    An atomic addition gives each its index: they are few, and a prefix sum would make all warps wait
    for one another at every step.
    """
    tl.store(candidate_count, 0)
    tl.debug_barrier()
    for start in range(0, vocabulary, _STEP):
        tokens = start + tl.arange(0, _STEP)
        inside = tokens < vocabulary
        bits = tl.load(weights + tokens, inside, other=0.0).to(tl.int32, bitcast=True)
        hit = inside & (_bin_of(bits) == target_bin)
        offset = tl.atomic_add(candidate_count + tokens * 0, 1, hit, sem="relaxed")
        tl.store(candidates + offset, bits, hit)
    tl.debug_barrier()
    return tl.load(candidate_count, volatile=True)


@triton.jit
def _size_above(
    candidates: tl.tensor, count: tl.tensor, value: tl.tensor, BY_MASS: tl.constexpr
) -> tl.tensor:
    """Return the mass, or the number, of the candidates whose bits exceed ``value``: int64."""
    total = tl.zeros([], tl.int64)
    for start in range(0, count, _TILE):
        at = start + tl.arange(0, _TILE)
        bits = tl.load(candidates + at, at < count, other=0)
        size = (bits > value).to(tl.int64)
        if BY_MASS:
            size = size * mass_of(bits.to(tl.float32, bitcast=True))
        total += tl.sum(size, 0)
    return total


@triton.jit
def _threshold(
    bins: tl.tensor, weights: tl.tensor, candidates: tl.tensor, candidate_count: tl.tensor,
    vocabulary: tl.tensor, limit: tl.tensor, BY_MASS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the bits of the smallest weight for which all above it do not reach ``limit``."""
    each = tl.arange(0, _BINS)
    sizes = tl.load(bins + each)
    short = tl.cumsum(sizes, 0) < limit
    target_bin = tl.minimum(tl.sum(short.to(tl.int32), 0), _BINS - 1)
    remaining = limit - tl.sum(tl.where(each < target_bin, sizes, 0), 0)
    count = _gather(weights, candidates, candidate_count, vocabulary, target_bin)
    low = (-target_bin + _TOP_BIN) << _BIN_SHIFT
    high = low + (_BIN_WIDTH - 1)
    if target_bin == _BINS - 1:
        low = low * 0  # the last bin reaches down to zero
    while low < high:
        middle = (low + high) // 2
        if _size_above(candidates, count, middle, BY_MASS) < remaining:
            high = middle
        else:
            low = middle + 1
    # The next search overwrites candidates that other warps may still read.
    tl.debug_barrier()
    return low


@triton.jit
def _mass_from(weights: tl.tensor, vocabulary: tl.tensor, threshold: tl.tensor) -> tl.tensor:
    """Return the mass of the weights whose bits reach ``threshold``: int64."""
    total = tl.zeros([_STEP], tl.int64)
    for start in range(0, vocabulary, _STEP):
        tokens = start + tl.arange(0, _STEP)
        w = tl.load(weights + tokens, tokens < vocabulary, other=0.0)
        kept = w.to(tl.int32, bitcast=True) >= threshold
        total += tl.where(kept, mass_of(w), 0)
    return tl.sum(total, 0)


@triton.jit
def _row_threshold(
    numbers: tl.tensor, settings: tl.tensor, bins: tl.tensor, rows: tl.tensor,
    weights: tl.tensor, candidates: tl.tensor, candidate_count: tl.tensor, vocabulary: tl.tensor,
    total: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Return the threshold of one row by top-k, top-p and min-p (as bits), and the mass that stays."""
    top_k, top_p = tl.load(numbers + 2), tl.load(settings + 1)
    threshold = tl.zeros([], tl.int32)
    mass = total
    if (top_k > 0) & (top_k < vocabulary):
        threshold = _threshold(bins, weights, candidates, candidate_count, vocabulary, top_k, False)
        mass = _mass_from(weights, vocabulary, threshold)
    if top_p < 1:
        limit = tl.ceil(mass.to(tl.float64) * top_p).to(tl.int64)
        mass_bins = bins + rows * _BINS
        nucleus = _threshold(
            mass_bins, weights, candidates, candidate_count, vocabulary, limit, True
        )
        threshold = tl.maximum(threshold, nucleus)
    # The most likely token has the weight 1, so min-p is a weight.
    threshold = tl.maximum(
        threshold, tl.load(settings + 2).to(tl.float32).to(tl.int32, bitcast=True)
    )
    if threshold > 0:
        mass = _mass_from(weights, vocabulary, threshold)
    return threshold, mass


@triton.jit
def truncate_kernel(
    vocabulary: tl.tensor,
    numbers: tl.tensor,
    settings: tl.tensor,
    weights: tl.tensor,  # float32 (rows, vocabulary): adjusted logits, overwritten with weights
    tile_max: tl.tensor,
    bins: tl.tensor,
    totals: tl.tensor,
    candidates: tl.tensor,
    candidate_count: tl.tensor,
    finished: tl.tensor,
    thresholds: tl.tensor,  # int32 (rows,), written
    masses: tl.tensor,  # float32 (rows,), written
    TILES: tl.constexpr,  # a power of two, no less than the programs of a row
) -> None:
    """Compute weights, and each row's threshold and mass; grid (rows, tiles)."""
    row, tile, rows = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    tiles = tl.num_programs(1)
    each = tl.arange(0, TILES)
    highest = tl.max(tl.load(tile_max + row * tiles + each, each < tiles, other=float("-inf")), 0)
    tokens = tile * _TILE + tl.arange(0, _TILE)
    inside = tokens < vocabulary
    offset = weights + row * vocabulary + tokens
    w = tl.where(inside, exp(tl.load(offset, inside, other=float("-inf")) - highest), 0.0)
    tl.store(offset, w, inside)
    mass = mass_of(w)
    tl.atomic_add(totals + row, tl.sum(mass, 0), sem="relaxed")
    top_k = tl.load(numbers + 2)
    at = bins + row * _BINS + _bin_of(w.to(tl.int32, bitcast=True))
    if (top_k > 0) & (top_k < vocabulary):
        tl.atomic_add(at, tl.full([_TILE], 1, tl.int64), inside, sem="relaxed")
    if tl.load(settings + 1) < 1:
        tl.atomic_add(at + rows * _BINS, mass, inside & (mass > 0), sem="relaxed")
    if is_last_program(finished + row, tiles):
        bits, kept = _row_threshold(
            numbers, settings, bins + row * _BINS, rows, weights + row * vocabulary,
            candidates + row * vocabulary, candidate_count + row, vocabulary, tl.load(totals + row),
        )  # fmt: skip
        tl.store(thresholds + row, bits)
        # Only a row that the host refuses has no mass; dividing by it must not give NaN.
        tl.store(masses + row, tl.where(kept > 0, kept.to(tl.float32) * (1.0 / _MASS_ONE), 1.0))
