"""The kernels for int8 weights: quantise rows to int8, and multiply.

They give the bits of ``engine.kernels.torch.int8``: integer sums are
exact in any order, so splits of the inputs change nothing, and the rest is element by element.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.intrinsics import is_last_program
from engine.kernels.cuda.linear.parts import (
    ROWS,
    collect_sums,
    finish,
    norm_factor,
    of_expert,
    own_columns,
    own_counter,
    own_rows,
    publish_sums,
)

LEVELS = tl.constexpr(127)
TINY = tl.constexpr(1e-30)


@triton.jit
def int8_rows(
    x: tl.tensor, norm: tl.tensor, values: tl.tensor, scales: tl.tensor, width: tl.tensor,
    epsilon: tl.tensor, DEPTH: tl.constexpr,
) -> None:  # fmt: skip
    """Quantise ``x (rows, width)`` to ``values`` int8 and ``scales (rows,)`` float32.

    One program a row, in two passes: a row of some kilobytes stays in the cache.
    """
    row = tl.program_id(0).to(tl.int64)
    absmax = tl.zeros((DEPTH,), tl.float32)
    square = tl.zeros((DEPTH,), tl.float32)
    for start in range(0, width, DEPTH):
        part, squared = _part(x, norm, row, start, width, DEPTH)
        absmax = tl.maximum(absmax, tl.abs(part), propagate_nan=tl.PropagateNan.ALL)
        square += squared
    scale = tl.fma(tl.max(absmax, 0), 1 / 127, TINY)  # one rounding, as torch.add with alpha
    bad = (tl.max((absmax != absmax).to(tl.int32), 0) > 0) | (scale == float("inf"))
    for start in range(0, width, DEPTH):
        part, _ = _part(x, norm, row, start, width, DEPTH)
        # Truncation after adding a half rounds to the nearest; LEVELS + 1 makes it positive.
        rounded = (tl.div_rn(part, scale) + (LEVELS + 1.5)).to(tl.int32) - (LEVELS + 1)
        inputs = start + tl.arange(0, DEPTH)
        stored = tl.where(bad, 0, rounded).to(tl.int8)
        tl.store(values + row * width + inputs, stored, mask=inputs < width)
    if norm is not None:
        scale = scale * norm_factor(tl.sum(square, 0), width, epsilon)
    tl.store(scales + row, tl.where(bad, float("nan"), scale))


@triton.jit
def _part(
    x: tl.tensor, norm: tl.tensor, row: tl.tensor, start: tl.tensor, width: tl.tensor,
    DEPTH: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return inputs of a row times the norm's weight, and the inputs' squares: (DEPTH,) float32 both."""
    inputs = start + tl.arange(0, DEPTH)
    mask = inputs < width
    values = tl.load(x + row * width + inputs, mask=mask, other=0.0).to(tl.float32)
    square = 0.0
    if norm is not None:
        square = values * values
        values = values * tl.load(norm + inputs, mask=mask, other=0.0).to(tl.float32)
    return values, square


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def int8_gemm(
    values: tl.tensor, scales: tl.tensor, weight: tl.tensor, weight_scales: tl.tensor,
    bias: tl.tensor, residual: tl.tensor, result: tl.tensor, partial: tl.tensor,
    counters: tl.tensor, experts: tl.tensor, rows: tl.tensor, outputs: tl.tensor,
    width: tl.tensor, span: tl.tensor, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """Multiply ``values (rows, width)`` int8 by ``weight (outputs, width)`` int8 and both scales.

    ``experts`` as in ``bf16_gemm``.
    """
    row = own_rows(rows, experts)
    weight = of_expert(weight, experts, outputs * width)
    weight_scales = of_expert(weight_scales, experts, outputs)
    bias = of_expert(bias, experts, outputs)
    column, source = own_columns(outputs, COLUMNS, GATED)
    weight += source.to(tl.int64)[:, None] * width
    acc = tl.zeros((ROWS, COLUMNS), tl.int32)
    first = tl.program_id(1) * span
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        inputs = start + tl.arange(0, DEPTH)
        mask = (row < rows)[:, None] & (inputs < width)[None, :]
        offset = row.to(tl.int64)[:, None] * width + inputs[None, :]
        part = tl.load(values + offset, mask=mask, other=0)
        mask = (column < outputs)[:, None] & (inputs < width)[None, :]
        tile = tl.load(weight + inputs[None, :], mask=mask, other=0)
        # Without out_dtype, Triton 3.6 takes the sums to be float32.
        acc = tl.dot(part, tl.trans(tile), acc, out_dtype=tl.int32)
    last = True
    if SPLITS > 1:
        publish_sums(partial, acc, row, column, rows, outputs)
        last = is_last_program(own_counter(counters), SPLITS)
    if last:
        if SPLITS > 1:
            acc = collect_sums(partial, acc, row, column, rows, outputs, SPLITS)
        column_scale = tl.load(weight_scales + source, mask=column < outputs, other=0.0)
        row_scale = tl.load(scales + row, mask=row < rows, other=0.0)
        total = acc.to(tl.float32) * column_scale[None, :] * row_scale[:, None]
        finish(total, bias, residual, result, row, column, source, rows, outputs, COLUMNS, GATED)
