"""Numbers rounded to blocks: a matrix of floats as a GGUF file would have it.

A group of 32 inputs is a scale and a minimum, and for each input a code of 4 bits. Several scales are
tried, some of which cut off what lies far out; for the codes of each, the scale and the minimum that
leave the least squared error are known in closed form, and the best of all are kept. Source of the
idea: ``make_qkx2_quants`` in ggml's ``ggml-quants.c``; a search for where to cut: Lin et al. 2023 (AWQ).
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.blocks import Blocks

_TOGETHER = 1 << 18
"""Weights that are rounded at once: few enough for a cache, enough that calls take no time."""
_GROUP = 32
_TOP = 15
"""The largest code of 4 bits."""
_STEPS = (15.0, 14.3, 16.2)
"""Steps that a group's range is divided into, 16 of whose ends have codes: what is tried."""
_LARGEST_HALF = 65504.0


def to_blocks(format: str, weight: Tensor) -> Blocks:
    """``weight (outputs, inputs)``, finite numbers of any float dtype, in a format of ``ROUNDING``.

    Raises ValueError where the rows are no whole blocks.
    """
    round_blocks, layout = ROUNDING[format], LAYOUTS[format]
    outputs, inputs = weight.shape
    data = torch.empty(outputs, inputs // layout.inputs * layout.size, dtype=torch.uint8)
    made = Blocks(format, (outputs, inputs), data)  # looks at the sizes
    rows = max(1, _TOGETHER // inputs)
    for to, part in zip(data.split(rows), weight.split(rows), strict=True):
        blocks = part.float().reshape(-1, layout.inputs)
        to.copy_(round_blocks(blocks).view(to.shape))
    return made


def _q8_0(x: Tensor) -> Tensor:
    """``x (blocks, 32)`` as bytes ``(blocks, 34)``: a scale and signed bytes."""
    scale = _half(x.abs().amax(-1, keepdim=True) / 127)
    codes = (x * _inverse(scale)).round_().clamp_(-127, 127)
    return torch.cat([_bytes(scale), codes.to(torch.int8).view(torch.uint8)], -1)


def _q4_1(x: Tensor) -> Tensor:
    """``x (blocks, 32)`` as bytes ``(blocks, 20)``: a scale, a minimum and codes."""
    scale, low = map(_half, _fitted(x))
    codes = _codes(x - low, _inverse(scale))
    return torch.cat([_bytes(scale), _bytes(low), _paired(codes, 16)], -1)


def _q4_k(x: Tensor) -> Tensor:
    """``x (blocks, 256)`` as bytes ``(blocks, 144)``: two scales of the eight scales and minimums of
    6 bits, these, and codes. Minimums are taken away, and none is below zero."""
    groups = x.view(-1, _GROUP)
    scale, low = _fitted(groups, below_zero=True)
    scales, minimums = (each.view(len(x), -1) for each in (scale, -low))
    shared = [_half(each.amax(-1, keepdim=True) / 63) for each in (scales, minimums)]
    sixths = [
        (each * _inverse(by)).round_().clamp_(0, 63)
        for each, by in zip((scales, minimums), shared, strict=True)
    ]
    scale, minimum = ((each * by).view(-1, 1) for each, by in zip(sixths, shared, strict=True))
    codes = _codes(groups + minimum, _inverse(scale))
    small = _six_bits(*(each.to(torch.uint8) for each in sixths))
    packed = _paired(codes.view(-1, 2 * _GROUP), _GROUP).view(len(x), -1)
    return torch.cat([*map(_bytes, shared), small, packed], -1)


ROUNDING = {"q8_0": _q8_0, "q4_1": _q4_1, "q4_k": _q4_k}
"""By format: float32 ``(blocks, inputs of one)`` to bytes ``(blocks, bytes of one)``."""


def _fitted(x: Tensor, *, below_zero: bool = False) -> tuple[Tensor, Tensor]:
    """Scale and minimum ``(groups, 1)`` for ``x (groups, 32)``. ``below_zero``: no minimum is above 0."""
    columns = x.t().contiguous()  # (32, groups): sums over groups are then of whole vectors
    low, high = columns.amin(0), columns.amax(0)
    if below_zero:
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
        spread = _GROUP * twos - ones * ones  # exact; 0 where all codes are one
        slope = (_GROUP * both - ones * total) / spread
        first = (total - slope * ones) / _GROUP
        if below_zero:
            beyond = first > zero
            first = torch.where(beyond, zero, first)
            slope = torch.where(beyond, (both - first * ones) / twos, slope)
        error = (
            squares
            + slope * (slope * twos - 2 * both + 2 * first * ones)
            + first * (_GROUP * first - 2 * total)
        )
        # Not where a division was by 0: its NaN compares as no better.
        better = (spread > 0) & (slope > 0) & (error < least)
        scale, start = torch.where(better, slope, scale), torch.where(better, first, start)
        least = torch.where(better, error, least)
    return (scale * unit)[:, None], (low + start * unit)[:, None]


def _codes(y: Tensor, inverse: Tensor) -> Tensor:
    """The nearest of 0..15 to ``y * inverse``, as floats."""
    return (y * inverse).round_().clamp_(0, _TOP)


def _inverse(scale: Tensor) -> Tensor:
    """0 where ``scale`` is."""
    return torch.where(scale == 0, scale, 1 / scale)


def _half(x: Tensor) -> Tensor:
    """The nearest number of 16 bits that is finite, in float32."""
    return x.clamp(-_LARGEST_HALF, _LARGEST_HALF).half().float()


def _bytes(halves: Tensor) -> Tensor:
    """``(blocks, 1)`` numbers of 16 bits as ``(blocks, 2)`` bytes."""
    return halves.half().view(torch.uint8)


def _paired(codes: Tensor, apart: int) -> Tensor:
    """``codes (n, 2 * apart)`` as bytes ``(n, apart)``: the first half in the lower four bits."""
    codes = codes.to(torch.uint8)
    return codes[:, :apart] | codes[:, apart:] << 4


def _six_bits(scales: Tensor, minimums: Tensor) -> Tensor:
    """Eight of each, ``(blocks, 8)`` below 64, in 12 bytes: the last four's upper bits above the first
    four, their lower bits together."""
    (first, last), (low, high) = scales.split(4, -1), minimums.split(4, -1)
    return torch.cat(
        [first | last >> 4 << 6, low | high >> 4 << 6, last & 15 | (high & 15) << 4], -1
    )
