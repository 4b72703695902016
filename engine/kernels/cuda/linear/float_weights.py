"""Products with bf16 weights. The torch reference is ``reference.FloatReference``."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.last_program import is_last_program
from engine.kernels.cuda.linear.parts import (
    ROWS,
    collect_squares,
    collect_sums,
    finish,
    float_rows,
    norm_factor,
    own_columns,
    own_counter,
    own_rows,
    publish_squares,
    publish_sums,
)


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def bf16_gemm(
    x: tl.tensor, weight: tl.tensor, norm: tl.tensor, bias: tl.tensor, residual: tl.tensor,
    result: tl.tensor, partial: tl.tensor, squares: tl.tensor, counters: tl.tensor,
    rows: tl.tensor, outputs: tl.tensor, width: tl.tensor, span: tl.tensor, epsilon: tl.tensor,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """``x (rows, width)`` times ``weight (outputs, width)`` bf16, with its fusion."""
    row = own_rows()
    column, source = own_columns(outputs, COLUMNS, GATED)
    weight += source.to(tl.int64)[:, None] * width
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    square = tl.zeros((ROWS, DEPTH), tl.float32)
    first = tl.program_id(1) * span
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        inputs = start + tl.arange(0, DEPTH)
        values, squared = float_rows(x, norm, row, inputs, rows, width)
        square += squared
        there = (column < outputs)[:, None] & (inputs < width)[None, :]
        tile = tl.load(weight + inputs[None, :], mask=there, other=0.0)
        sums = tl.dot(values, tl.trans(tile), sums)
    epilogue(
        sums, tl.sum(square, 1), norm, bias, residual, result, partial, squares, counters,
        row, column, source, rows, outputs, width, epsilon, COLUMNS, SPLITS, GATED,
    )  # fmt: skip


@triton.jit
def epilogue(
    sums: tl.tensor, square: tl.tensor, norm: tl.tensor, bias: tl.tensor, residual: tl.tensor,
    result: tl.tensor, partial: tl.tensor, squares: tl.tensor, counters: tl.tensor,
    row: tl.tensor, column: tl.tensor, source: tl.tensor, rows: tl.tensor, outputs: tl.tensor,
    width: tl.tensor, epsilon: tl.tensor, COLUMNS: tl.constexpr, SPLITS: tl.constexpr,
    GATED: tl.constexpr,
) -> None:  # fmt: skip
    """The last program of a tile to come adds up all splits' sums, and finishes."""
    last = True
    if SPLITS > 1:
        publish_sums(partial, sums, row, column, rows, outputs)
        if norm is not None:
            publish_squares(squares, square, row, rows)
        last = is_last_program(own_counter(counters), SPLITS)
    if last:
        if SPLITS > 1:
            sums = collect_sums(partial, sums, row, column, rows, outputs, SPLITS)
            if norm is not None:
                square = collect_squares(squares, square, row, rows, SPLITS)
        if norm is not None:
            sums = sums * norm_factor(square, width, epsilon)[:, None]
        finish(
            sums, bias, residual, result, row, column, source, rows, outputs, COLUMNS, GATED
        )  # fmt: skip
