"""Products with int8 weights and rows quantised to int8. The torch references, whose bits these
kernels give, are ``reference.Int8Reference`` and ``reference.quantise_rows``.

Sums are integers: exact in any order, so that splits of the inputs change nothing. What follows is
element by element, in the reference's order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.last_program import is_last_program
from engine.kernels.cuda.linear.parts import (
    ROWS,
    collect_sums,
    finish,
    norm_factor,
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
    """One row a program: ``x (rows, width)`` to ``values`` int8 and ``scales (rows,)`` float32.

    Two passes over a row of some kilobytes, which stays in the cache.
    """
    row = tl.program_id(0).to(tl.int64)
    peak = tl.zeros((DEPTH,), tl.float32)
    square = tl.zeros((DEPTH,), tl.float32)
    for start in range(0, width, DEPTH):
        part, squared = _part(x, norm, row, start, width, DEPTH)
        peak = tl.maximum(peak, tl.abs(part), propagate_nan=tl.PropagateNan.ALL)
        square += squared
    scale = tl.fma(tl.max(peak, 0), 1 / 127, TINY)  # one rounding, as torch.add with alpha
    bad = (tl.max((peak != peak).to(tl.int32), 0) > 0) | (scale == float("inf"))
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
    """Inputs of a row times the norm's weight, and their squares without: (DEPTH,) float32 each."""
    inputs = start + tl.arange(0, DEPTH)
    there = inputs < width
    values = tl.load(x + row * width + inputs, mask=there, other=0.0).to(tl.float32)
    square = 0.0
    if norm is not None:
        square = values * values
        values = values * tl.load(norm + inputs, mask=there, other=0.0).to(tl.float32)
    return values, square


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def int8_gemm(
    values: tl.tensor, scales: tl.tensor, weight: tl.tensor, weight_scales: tl.tensor,
    bias: tl.tensor, residual: tl.tensor, result: tl.tensor, partial: tl.tensor,
    counters: tl.tensor, rows: tl.tensor, outputs: tl.tensor, width: tl.tensor, span: tl.tensor,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """``values (rows, width)`` int8 times ``weight (outputs, width)`` int8, times both scales."""
    row = own_rows()
    column, source = own_columns(outputs, COLUMNS, GATED)
    weight += source.to(tl.int64)[:, None] * width
    sums = tl.zeros((ROWS, COLUMNS), tl.int32)
    first = tl.program_id(1) * span
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        inputs = start + tl.arange(0, DEPTH)
        there = (row < rows)[:, None] & (inputs < width)[None, :]
        place = row.to(tl.int64)[:, None] * width + inputs[None, :]
        part = tl.load(values + place, mask=there, other=0)
        there = (column < outputs)[:, None] & (inputs < width)[None, :]
        tile = tl.load(weight + inputs[None, :], mask=there, other=0)
        # Triton 3.6 takes the sums for float32 unless out_dtype says otherwise.
        sums = tl.dot(part, tl.trans(tile), sums, out_dtype=tl.int32)
    last = True
    if SPLITS > 1:
        publish_sums(partial, sums, row, column, rows, outputs)
        last = is_last_program(own_counter(counters), SPLITS)
    if last:
        if SPLITS > 1:
            sums = collect_sums(partial, sums, row, column, rows, outputs, SPLITS)
        column_scale = tl.load(weight_scales + source, mask=column < outputs, other=0.0)
        row_scale = tl.load(scales + row, mask=row < rows, other=0.0)
        total = sums.to(tl.float32) * column_scale[None, :] * row_scale[:, None]
        finish(
            total, bias, residual, result, row, column, source, rows, outputs, COLUMNS, GATED
        )  # fmt: skip
