"""int8 linear layers: integer sums, so that a row's bits cannot depend on the rows beside it.

The sum over the inputs is an integer and has no rounding order; what follows (times the channel's
scale, times the row's scale) is elementwise.

On processors without VNNI (Intel before Ice Lake, most laptops before 2023) the u8 x s8 instruction
adds pairs in 16 bits and saturates: 255 * 127 * 2 does not fit. There 63 levels a side are used in
place of 127, since 127 * 127 * 2 does fit. ``exact_levels`` tries the extremes on the machine at hand
and takes the finer one that is exact; where none is, ``Int8Reference`` is used.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.formats.int8 import ACTIVATION_LEVELS, WEIGHT_LEVELS, Int8Weight, quantise_rows
from engine.kernels.torch.linear import Linear
from engine.values import MAX_ROWS

EXACT_WIDTH = 1024
"""This many products of two bytes sum to less than 2**24: exact in float32, in any order."""
_OUTPUTS = 8192
"""Outputs whose weights are converted to float at once, so that float copies stay small."""
LONGEST = 2**31 // (255 * WEIGHT_LEVELS)
"""The widest input whose sum fits in 32 bits."""


class Int8Reference:
    """Plain matmul; exact everywhere, and slow: it converts the weight to float in every call."""

    def __init__(self, weight: Int8Weight, levels: int = ACTIVATION_LEVELS[0]) -> None:
        self.weight, self.levels = weight, levels

    def __call__(self, x: Tensor) -> Tensor:
        quantised, scale = quantise_rows(x, self.levels)
        total = _integer_matmul(quantised, self.weight.values, self.levels + 1)
        return (total * self.weight.scale * scale).to(x.dtype)


class Int8Packed:
    """oneDNN's prepacked matmul: the weight is read once for all rows, in one byte a number."""

    def __init__(self, weight: Int8Weight, levels: int = ACTIVATION_LEVELS[0]) -> None:
        self.weight = torch.ops.onednn.qlinear_prepack(weight.values, None)
        self.scale = weight.scale
        self.offset = torch.zeros(len(weight.scale), dtype=torch.int32)  # symmetric weights
        self.levels = levels

    def __call__(self, x: Tensor) -> Tensor:
        quantised, scale = quantise_rows(x, self.levels)
        return (self.matmul(quantised) * scale).to(x.dtype)

    def matmul(self, quantised: Tensor) -> Tensor:
        """Return integer sums of bytes ``(rows, in)`` times the channels' scales: float32 (rows, out)."""
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantised, 1.0, self.levels + 1, self.weight, self.scale, self.offset,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return result


class Int8Embedding:
    """Rows of a quantised table."""

    def __init__(self, weight: Int8Weight, dtype: torch.dtype) -> None:
        self.weight, self.dtype = weight, dtype

    def __call__(self, ids: Tensor) -> Tensor:
        """Map ``ids (rows,)`` to ``(rows, hidden)`` in the dtype the model computes in."""
        rows = self.weight.values[ids].float() * self.weight.scale[ids, None]
        return rows.to(self.dtype)


def make_int8(weight: Int8Weight) -> Linear:
    """Return the fastest linear layer for ``weight`` that is exact on this machine."""
    if weight.values.device.type != "cpu":  # oneDNN is for CPUs
        return Int8Reference(weight)
    levels = exact_levels(weight.values.shape[1])
    if levels is None:
        return Int8Reference(weight)
    packed = Int8Packed(weight, levels)
    return packed if _agrees(packed, weight) else Int8Reference(weight, levels)


@functools.cache
def exact_levels(width: int) -> int | None:
    """Return the levels a side with which oneDNN's sums over ``width`` inputs are exact, or None."""
    if width > LONGEST or not torch.backends.mkldnn.is_available():
        return None
    return next((levels for levels in ACTIVATION_LEVELS if _is_exact(width, levels)), None)


def _is_exact(width: int, levels: int) -> bool:
    """Return whether the largest sums that can occur come out right."""
    sign = torch.ones(16, width, dtype=torch.int8)
    sign[1::2] = -1
    sign[2::4, 1::2] = -1
    values = (sign * WEIGHT_LEVELS).repeat(4, 1)  # (64, width): all extremes, and alternating ones
    centre = levels + 1
    rows = (centre + levels * sign.int()).to(torch.uint8)  # (16, width)
    try:
        sums = Int8Packed(Int8Weight(values, torch.ones(64)), levels).matmul(rows)
    except RuntimeError:  # no such kernel for this processor
        return False
    return torch.equal(sums, _integer_matmul(rows, values, centre))


_checked: dict[tuple[int, int, int], bool] = {}


def _agrees(packed: Int8Packed, weight: Int8Weight) -> bool:
    """Return whether ``packed`` gives the reference's bits for 1 and more rows; tested once a shape.

    Only the first and the last outputs are compared: kernels differ at edges, and a whole head
    would take seconds.
    """
    out, width = weight.values.shape
    key = (out, width, packed.levels)
    if key not in _checked:
        outputs = torch.arange(out) if out <= 128 else torch.cat(
            [torch.arange(64), torch.arange(out - 64, out)]
        )  # fmt: skip
        reference = Int8Reference(
            Int8Weight(weight.values[outputs], weight.scale[outputs]), packed.levels
        )
        x = torch.randn(MAX_ROWS, width, generator=torch.Generator().manual_seed(0))
        expected = reference(x)
        _checked[key] = all(
            torch.equal(packed(x[:rows])[:, outputs], expected[:rows])
            for rows in (1, 2, 5, MAX_ROWS)
        )
    return _checked[key]


def _integer_matmul(rows: Tensor, values: Tensor, centre: int) -> Tensor:
    """Return ``(rows - centre) @ values.T``, exact, then rounded once to float32: (rows, out)."""
    parts = []
    for outputs in values.split(_OUTPUTS):
        total = torch.zeros(len(rows), len(outputs), dtype=torch.float64, device=rows.device)
        for left, right in zip(
            rows.split(EXACT_WIDTH, dim=1), outputs.split(EXACT_WIDTH, dim=1), strict=True
        ):
            total += F.linear(left.float() - centre, right.float())
        parts.append(total.float())
    return torch.cat(parts, dim=1)
