"""Where top-k, top-p and min-p truncate a row, without a sort: the second launch of a round.

``truncate_kernel`` makes weights w = exp(x - max), and the last program of a row to finish finds the
smallest weight that is left.

Both top-k and top-p keep from the smallest value v on for which what lies strictly above v has not
reached a limit: k tokens, or the share top-p of the mass. So one search serves both: a histogram
of 2,048 bins, filled by all programs of the row, tells the bin; the weights in it are gathered, and
the bits of v are found by halving. Truncation is by value, as in ``decoding/sampling.py``: equal tokens
stay or go together.

Mass is summed in integers, 2^44 to the weight 1. Integer sums have no order, so neither the number
of rows nor the order in which programs finish can change a bit, and torch makes the same sums.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.last_program import is_last_program
from engine.kernels.cuda.sampling.arithmetic import exp
from engine.kernels.cuda.sampling.state import BINS, BLOCK, Distribution
from engine.values.sampling import Sampling

_BLOCK, _BINS = tl.constexpr(BLOCK), tl.constexpr(BINS)
_STEP = tl.constexpr(4096)
"""What one program takes at once of a whole row."""
_BIN_SHIFT = tl.constexpr(17)
_BIN_WIDTH = tl.constexpr(1 << 17)
_TOP_BIN = tl.constexpr(0x3F800000 >> 17)
TRUNCATION_WARPS = 16
"""With 8 the compiler spills on sm_90 and sm_120 (Triton 3.9)."""
MASS_ONE = 2.0**44
"""The mass of weight 1: a quarter of a million of them still fit 63 bits."""
_MASS_ONE = tl.constexpr(MASS_ONE)


@triton.jit
def mass_of(weights: tl.tensor) -> tl.tensor:
    """Float32 weights in [0, 1] as integers; what is under 2^-44 weighs nothing."""
    return (weights * _MASS_ONE).to(tl.int64)


@triton.jit
def _bin_of(bits: tl.tensor) -> tl.tensor:
    return tl.minimum(-(bits >> _BIN_SHIFT) + _TOP_BIN, _BINS - 1)


@triton.jit
def _gather(
    weights: tl.tensor,
    found: tl.tensor,
    gathered: tl.tensor,
    vocabulary: tl.tensor,
    wanted: tl.tensor,
) -> tl.tensor:
    """Writes the bits of all weights in one bin to ``found``, in any order; how many there are.

    A place is had by an atomic addition: few weights are wanted, and a prefix sum would make all
    warps wait for one another at every step.
    """
    tl.store(gathered, 0)
    tl.debug_barrier()
    for start in range(0, vocabulary, _STEP):
        tokens = start + tl.arange(0, _STEP)
        inside = tokens < vocabulary
        bits = tl.load(weights + tokens, inside, other=0.0).to(tl.int32, bitcast=True)
        hit = inside & (_bin_of(bits) == wanted)
        place = tl.atomic_add(gathered + tokens * 0, 1, hit, sem="relaxed")
        tl.store(found + place, bits, hit)
    tl.debug_barrier()
    return tl.load(gathered, volatile=True)


@triton.jit
def _above(
    found: tl.tensor, count: tl.tensor, value: tl.tensor, BY_MASS: tl.constexpr
) -> tl.tensor:
    """Mass, or number, of the gathered weights whose bits exceed ``value``; int64."""
    total = tl.zeros([], tl.int64)
    for start in range(0, count, _BLOCK):
        at = start + tl.arange(0, _BLOCK)
        bits = tl.load(found + at, at < count, other=0)
        size = (bits > value).to(tl.int64)
        if BY_MASS:
            size = size * mass_of(bits.to(tl.float32, bitcast=True))
        total += tl.sum(size, 0)
    return total


@triton.jit
def _threshold(
    bins: tl.tensor, weights: tl.tensor, found: tl.tensor, gathered: tl.tensor,
    vocabulary: tl.tensor, limit: tl.tensor, BY_MASS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Bits of the smallest weight such that what lies strictly above has not reached ``limit``."""
    each = tl.arange(0, _BINS)
    sizes = tl.load(bins + each)
    short = tl.cumsum(sizes, 0) < limit
    wanted = tl.minimum(tl.sum(short.to(tl.int32), 0), _BINS - 1)
    rest = limit - tl.sum(tl.where(each < wanted, sizes, 0), 0)
    count = _gather(weights, found, gathered, vocabulary, wanted)
    low = (-wanted + _TOP_BIN) << _BIN_SHIFT
    high = low + (_BIN_WIDTH - 1)
    if wanted == _BINS - 1:
        low = low * 0  # the last bin reaches down to zero
    while low < high:
        middle = (low + high) // 2
        if _above(found, count, middle, BY_MASS) < rest:
            high = middle
        else:
            low = middle + 1
    # Whoever gathers next writes where others may still read.
    tl.debug_barrier()
    return low


@triton.jit
def _mass_from(weights: tl.tensor, vocabulary: tl.tensor, threshold: tl.tensor) -> tl.tensor:
    """Mass of the weights whose bits reach ``threshold``; int64."""
    total = tl.zeros([_STEP], tl.int64)
    for start in range(0, vocabulary, _STEP):
        tokens = start + tl.arange(0, _STEP)
        w = tl.load(weights + tokens, tokens < vocabulary, other=0.0)
        kept = w.to(tl.int32, bitcast=True) >= threshold
        total += tl.where(kept, mass_of(w), 0)
    return tl.sum(total, 0)


@triton.jit
def _smallest_kept(
    numbers: tl.tensor, settings: tl.tensor, bins: tl.tensor, rows: tl.tensor,
    weights: tl.tensor, found: tl.tensor, gathered: tl.tensor, vocabulary: tl.tensor,
    total: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """What top-k, top-p and min-p leave of one row: bits of the smallest weight, and the mass."""
    top_k, top_p = tl.load(numbers + 2), tl.load(settings + 1)
    threshold = tl.zeros([], tl.int32)
    mass = total
    if (top_k > 0) & (top_k < vocabulary):
        threshold = _threshold(bins, weights, found, gathered, vocabulary, top_k, False)
        mass = _mass_from(weights, vocabulary, threshold)
    if top_p < 1:
        limit = tl.ceil(mass.to(tl.float64) * top_p).to(tl.int64)
        mass_bins = bins + rows * _BINS
        held = _threshold(mass_bins, weights, found, gathered, vocabulary, limit, True)
        threshold = tl.maximum(threshold, held)
    # The likeliest weighs 1, so its share min-p is min-p.
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
    peaks: tl.tensor,
    bins: tl.tensor,
    totals: tl.tensor,
    found: tl.tensor,
    gathered: tl.tensor,
    finished: tl.tensor,
    thresholds: tl.tensor,  # int32 (rows,), written
    masses: tl.tensor,  # float32 (rows,), written
    BLOCKS: tl.constexpr,  # a power of two, no less than the programs of a row
) -> None:
    """Weights, and the least of each row that is kept; grid (rows, blocks)."""
    row, block, rows = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    blocks = tl.num_programs(1)
    each = tl.arange(0, BLOCKS)
    highest = tl.max(tl.load(peaks + row * blocks + each, each < blocks, other=float("-inf")), 0)
    tokens = block * _BLOCK + tl.arange(0, _BLOCK)
    inside = tokens < vocabulary
    place = weights + row * vocabulary + tokens
    w = tl.where(inside, exp(tl.load(place, inside, other=float("-inf")) - highest), 0.0)
    tl.store(place, w, inside)
    mass = mass_of(w)
    tl.atomic_add(totals + row, tl.sum(mass, 0), sem="relaxed")
    top_k = tl.load(numbers + 2)
    at = bins + row * _BINS + _bin_of(w.to(tl.int32, bitcast=True))
    if (top_k > 0) & (top_k < vocabulary):
        tl.atomic_add(at, tl.full([_BLOCK], 1, tl.int64), inside, sem="relaxed")
    if tl.load(settings + 1) < 1:
        tl.atomic_add(at + rows * _BINS, mass, inside & (mass > 0), sem="relaxed")
    if is_last_program(finished + row, blocks):
        bits, kept = _smallest_kept(
            numbers, settings, bins + row * _BINS, rows, weights + row * vocabulary,
            found + row * vocabulary, gathered + row, vocabulary, tl.load(totals + row),
        )  # fmt: skip
        tl.store(thresholds + row, bits)
        # Only a row that is refused has no mass; it must not make NaN of what is read beside it.
        tl.store(masses + row, tl.where(kept > 0, kept.to(tl.float32) * (1.0 / _MASS_ONE), 1.0))


def truncated_reference(weights: Tensor, sampling: Sampling) -> Distribution:
    """What ``truncate_kernel`` leaves, by sorting; ``weights`` float32 (rows, vocabulary)."""
    thresholds = [_smallest_kept_reference(row, sampling) for row in weights]
    masses = [
        _mass_reference(row[row.view(torch.int32) >= threshold]).sum()
        for row, threshold in zip(weights, thresholds, strict=True)
    ]
    return Distribution(
        weights,
        torch.tensor(thresholds, dtype=torch.int32),
        torch.stack(masses).float() / MASS_ONE,
    )


def _smallest_kept_reference(row: Tensor, sampling: Sampling) -> int:
    ranked = row.sort(descending=True).values
    smallest = ranked.new_tensor(0.0)
    if 0 < sampling.top_k < len(row):
        smallest = ranked[sampling.top_k - 1]
    if sampling.top_p < 1:
        mass = _mass_reference(torch.where(ranked >= smallest, ranked, 0.0))
        before = mass.cumsum(0) - mass
        limit = (mass.sum().double() * sampling.top_p).ceil()
        smallest = torch.maximum(smallest, ranked[before < limit].min())
    smallest = torch.maximum(smallest, ranked.new_tensor(sampling.min_p))
    return int(smallest.view(torch.int32))


def _mass_reference(weights: Tensor) -> Tensor:
    return (weights * MASS_ONE).long()
