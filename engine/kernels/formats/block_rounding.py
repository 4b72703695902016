"""Quantise a matrix of floats to blocks as a GGUF file would have them.

A group of 32 inputs has a scale, a minimum, and for each input a code of 4 bits. Several step sizes are
tried, some of which clip outliers. For the codes of each, the scale and minimum with the least squared
error are known in closed form, and the best of all are kept. Sources: ``make_qkx2_quants`` in ggml's
``ggml-quants.c``; the search for where to clip: Lin et al. 2023 (AWQ).
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.blocks import Blocks

_CHUNK = 1 << 18
"""Weights that are quantised at once: few enough for a cache, enough to make calls cheap."""
_GROUP = 32
_TOP = 15
"""The largest code of 4 bits."""
_STEPS = (15.0, 14.3, 16.2)
"""Numbers of steps that a group's range is divided into, on trial; 16 ends of steps have codes."""
_LARGEST_HALF = 65504.0


def to_blocks(format: str, weight: Tensor) -> Blocks:
    """Quantise ``weight (outputs, inputs)``, finite and of any float dtype, to a format of ``ROUNDING``.

    Raises ValueError if a row is not whole blocks.
    """
    round_blocks, layout = ROUNDING[format], LAYOUTS[format]
    outputs, inputs = weight.shape
    data = torch.empty(outputs, inputs // layout.inputs * layout.size, dtype=torch.uint8)
    blocks = Blocks(format, (outputs, inputs), data)  # checks the sizes
    rows = max(1, _CHUNK // inputs)
    for to, part in zip(data.split(rows), weight.split(rows), strict=True):
        to.copy_(round_blocks(part.float().reshape(-1, layout.inputs)).view(to.shape))
    return blocks


def _q8_0(x: Tensor) -> Tensor:
    """Return ``x (blocks, 32)`` as bytes ``(blocks, 34)``: a scale and signed bytes."""
    scale = _half(x.abs().amax(-1, keepdim=True) / 127)
    codes = (x * _inverse(scale)).round_().clamp_(-127, 127)
    return torch.cat([_bytes(scale), codes.to(torch.int8).view(torch.uint8)], -1)


def _q4_1(x: Tensor) -> Tensor:
    """Return ``x (blocks, 32)`` as bytes ``(blocks, 20)``: a scale, a minimum and codes."""
    scale, low = map(_half, _fit(x))
    codes = _codes(x - low, _inverse(scale))
    return torch.cat([_bytes(scale), _bytes(low), _pack_nibbles(codes, 16)], -1)


def _q4_k(x: Tensor) -> Tensor:
    """Return ``x (blocks, 256)`` as bytes ``(blocks, 144)``.

    A block is two scales, one of the eight 6-bit scales and one of the eight 6-bit minimums, then these,
    then the codes. Minimums are subtracted, and none is below zero.
    """
    groups = x.view(-1, _GROUP)
    scale, low = _fit(groups, nonpositive=True)
    scales, minimums = (each.view(len(x), -1) for each in (scale, -low))
    shared = [_half(each.amax(-1, keepdim=True) / 63) for each in (scales, minimums)]
    six_bits = [
        (each * _inverse(by)).round_().clamp_(0, 63)
        for each, by in zip((scales, minimums), shared, strict=True)
    ]
    scale, minimum = ((each * by).view(-1, 1) for each, by in zip(six_bits, shared, strict=True))
    codes = _codes(groups + minimum, _inverse(scale))
    small = _pack_six_bits(*(each.to(torch.uint8) for each in six_bits))
    packed = _pack_nibbles(codes.view(-1, 2 * _GROUP), _GROUP).view(len(x), -1)
    return torch.cat([*map(_bytes, shared), small, packed], -1)


ROUNDING = {"q8_0": _q8_0, "q4_1": _q4_1, "q4_k": _q4_k}
"""Functions by format, from float32 ``(blocks, inputs of one)`` to bytes ``(blocks, bytes of one)``."""


def _fit(x: Tensor, *, nonpositive: bool = False) -> tuple[Tensor, Tensor]:
    """Return scale and minimum ``(groups, 1)`` for ``x (groups, 32)``.

    ``nonpositive``: no minimum is above 0.
    """
    columns = x.t().contiguous()  # (32, groups): sums over groups are then of whole vectors
    low, high = columns.amin(0), columns.amax(0)
    if nonpositive:
        low.clamp_(max=0)
    unit = (high - low) / _TOP
    inverse = _inverse(unit)
    y = (columns - low).mul_(inverse)  # 0..15; what follows is in units
    zero = -low * inverse
    total, squares = y.sum(0), (y * y).sum(0)
    scale, start = torch.ones_like(unit), torch.zeros_like(unit)
    least = torch.full_like(unit, torch.inf)
    product = torch.empty_like(y)
    for steps in _STEPS:
        codes = torch.add(torch.tensor((_TOP - steps) / 2), y, alpha=steps / _TOP)
        codes.round_().clamp_(0, _TOP)
        ones = codes.sum(0)
        both = torch.mul(codes, y, out=product).sum(0)
        twos = codes.mul_(codes).sum(0)
        spread = _GROUP * twos - ones * ones  # exact; 0 where all codes are the same
        slope = (_GROUP * both - ones * total) / spread
        first = (total - slope * ones) / _GROUP
        if nonpositive:
            above = first > zero
            first = torch.where(above, zero, first)
            slope = torch.where(above, (both - first * ones) / twos, slope)
        error = (
            squares
            + slope * (slope * twos - 2 * both + 2 * first * ones)
            + first * (_GROUP * first - 2 * total)
        )
        # Dividing by 0 gave NaN, which compares as no better.
        better = (spread > 0) & (slope > 0) & (error < least)
        scale, start = torch.where(better, slope, scale), torch.where(better, first, start)
        least = torch.where(better, error, least)
    return (scale * unit)[:, None], (low + start * unit)[:, None]


def _codes(y: Tensor, inverse: Tensor) -> Tensor:
    """Return the nearest of 0..15 to ``y * inverse``, as floats."""
    return (y * inverse).round_().clamp_(0, _TOP)


def _inverse(scale: Tensor) -> Tensor:
    """Return 1 / ``scale``, and 0 for 0."""
    return torch.where(scale == 0, scale, 1 / scale)


def _half(x: Tensor) -> Tensor:
    """Round to the nearest finite float16, kept in float32."""
    return x.clamp(-_LARGEST_HALF, _LARGEST_HALF).half().float()


def _bytes(halves: Tensor) -> Tensor:
    """Return float16 numbers ``(blocks, 1)`` as bytes ``(blocks, 2)``."""
    return halves.half().view(torch.uint8)


def _pack_nibbles(codes: Tensor, apart: int) -> Tensor:
    """Pack ``codes (n, 2 * apart)`` into bytes ``(n, apart)``, the first half in the lower four bits."""
    codes = codes.to(torch.uint8)
    return codes[:, :apart] | codes[:, apart:] << 4


def _pack_six_bits(scales: Tensor, minimums: Tensor) -> Tensor:
    """Pack eight scales and eight minimums below 64, ``(blocks, 8)`` each, into 12 bytes.

    The upper bits of the last four lie above the first four; their lower bits lie together.
    """
    (first, last), (low, high) = scales.split(4, -1), minimums.split(4, -1)
    return torch.cat(
        [first | last >> 4 << 6, low | high >> 4 << 6, last & 15 | (high & 15) << 4], -1
    )
