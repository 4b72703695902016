"""The kernel for bf16 weights, and the epilogue of float kernels. See ``linear_reference``."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.intrinsics import is_last_program
from engine.kernels.cuda.linear.parts import (
    ROWS,
    collect_sums,
    finish,
    float_rows,
    of_expert,
    own_columns,
    own_counter,
    own_rows,
    publish_sums,
)


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def bf16_gemm(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, residual: tl.tensor, result: tl.tensor,
    partial: tl.tensor, counters: tl.tensor, experts: tl.tensor, rows: tl.tensor,
    outputs: tl.tensor, width: tl.tensor, span: tl.tensor, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """Multiply ``x (rows, width)`` by ``weight (outputs, width)`` bf16, with its fusion.

    ``experts (rows,)`` int32: which of as many weights and biases each row has; None: all have one.
    """
    row = own_rows(rows, experts)
    weight = of_expert(weight, experts, outputs * width)
    bias = of_expert(bias, experts, outputs)
    column, source = own_columns(outputs, COLUMNS, GATED)
    weight += source.to(tl.int64)[:, None] * width
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(1) * span
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        inputs = start + tl.arange(0, DEPTH)
        values = float_rows(x, row, inputs, rows, width)
        mask = (column < outputs)[:, None] & (inputs < width)[None, :]
        tile = tl.load(weight + inputs[None, :], mask=mask, other=0.0)
        acc = tl.dot(values, tl.trans(tile), acc)
    epilogue(
        acc, bias, residual, result, partial, counters, row, column, source, rows, outputs,
        COLUMNS, SPLITS, GATED,
    )  # fmt: skip


@triton.jit
def epilogue(
    acc: tl.tensor, bias: tl.tensor, residual: tl.tensor, result: tl.tensor, partial: tl.tensor,
    counters: tl.tensor, row: tl.tensor, column: tl.tensor, source: tl.tensor, rows: tl.tensor,
    outputs: tl.tensor, COLUMNS: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """Store this split's sums; in the last program of a tile, add up all splits and finish."""
    last = True
    if SPLITS > 1:
        publish_sums(partial, acc, row, column, rows, outputs)
        last = is_last_program(own_counter(counters), SPLITS)
    if last:
        if SPLITS > 1:
            acc = collect_sums(partial, acc, row, column, rows, outputs, SPLITS)
        finish(acc, bias, residual, result, row, column, source, rows, outputs, COLUMNS, GATED)
