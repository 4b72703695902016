"""What the three products share: where a program stands, partial sums, and what follows the sum.

The grid is (blocks of 16 rows, splits of the inputs, tiles of outputs). Programs of one tile stand side
by side, so that a weight's rows are read in order. What all of this means in torch stands
in ``reference``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.linear import tiles

ROWS = tl.constexpr(tiles.ROWS)
"""Rows of one tile. Rows that are not there are zeros in registers."""


@triton.jit
def own_rows() -> tl.tensor:
    """The rows of this program: (16,) int32."""
    return tl.program_id(0) * ROWS + tl.arange(0, ROWS)


@triton.jit
def own_columns(outputs: tl.tensor, COLUMNS: tl.constexpr, GATED: tl.constexpr) -> tl.tensor:
    """The sums' columns and the weight rows they belong to: (COLUMNS,) int32 each.

    A gate's output and the one it multiplies stand side by side, so that one thread holds both.
    """
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    source = column
    if GATED:
        source = column // 2 + (column % 2) * (outputs // 2)
    return column, source


@triton.jit
def float_rows(
    x: tl.tensor, norm: tl.tensor, row: tl.tensor, inputs: tl.tensor, rows: tl.tensor,
    width: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Rows times the norm's weight, rounded to bf16, and the rows' squares: (16, inputs) each."""
    there = (row < rows)[:, None] & (inputs < width)[None, :]
    values = tl.load(x + row.to(tl.int64)[:, None] * width + inputs[None, :], mask=there, other=0.0)
    square = 0.0
    if norm is not None:
        values = values.to(tl.float32)
        square = values * values
        factor = tl.load(norm + inputs, mask=inputs < width, other=0.0).to(tl.float32)
        values = values * factor[None, :]
    return values.to(tl.bfloat16), square


@triton.jit
def own_counter(counters: tl.tensor) -> tl.tensor:
    """Where the splits of this program's tile are counted."""
    return counters + tl.program_id(0) * tl.num_programs(2) + tl.program_id(2)


@triton.jit
def publish_sums(
    partial: tl.tensor, sums: tl.tensor, row: tl.tensor, column: tl.tensor, rows: tl.tensor,
    outputs: tl.tensor,
) -> None:  # fmt: skip
    """Writes this split's ``sums (16, COLUMNS)`` into ``partial (splits, rows, outputs)``."""
    place = (tl.program_id(1) * rows + row).to(tl.int64)[:, None] * outputs + column[None, :]
    tl.store(partial + place, sums, mask=(row < rows)[:, None] & (column < outputs)[None, :])


@triton.jit
def collect_sums(
    partial: tl.tensor, sums: tl.tensor, row: tl.tensor, column: tl.tensor, rows: tl.tensor,
    outputs: tl.tensor, SPLITS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The sums of all splits, added from the first to the last. Past the L1 cache, which may be stale."""
    there = (row < rows)[:, None] & (column < outputs)[None, :]
    place = row.to(tl.int64)[:, None] * outputs + column[None, :]
    total = tl.zeros_like(sums)
    for split in tl.static_range(SPLITS):
        at = partial + tl.cast(split * rows, tl.int64) * outputs + place
        total += tl.load(at, mask=there, other=0, cache_modifier=".cg")
    return total


@triton.jit
def publish_squares(squares: tl.tensor, square: tl.tensor, row: tl.tensor, rows: tl.tensor) -> None:
    """Writes the rows' sums of squares ``(16,)`` into ``squares (tiles, splits, rows)``."""
    place = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * rows + row
    tl.store(squares + place, square, mask=row < rows)


@triton.jit
def collect_squares(
    squares: tl.tensor, square: tl.tensor, row: tl.tensor, rows: tl.tensor, SPLITS: tl.constexpr
) -> tl.tensor:
    """The squares of all splits, added from the first to the last."""
    total = tl.zeros_like(square)
    for split in tl.static_range(SPLITS):
        place = (tl.program_id(2) * SPLITS + split) * rows + row
        total += tl.load(squares + place, mask=row < rows, other=0.0, cache_modifier=".cg")
    return total


@triton.jit
def norm_factor(square: tl.tensor, width: tl.tensor, epsilon: tl.tensor) -> tl.tensor:
    """1 / sqrt(mean square + epsilon) of each row: (16,) float32."""
    # A width of 1 is compiled in, and no tensor.
    mean = tl.div_rn(square, tl.cast(width, tl.float32))
    return tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon))


@triton.jit
def finish(
    sums: tl.tensor, bias: tl.tensor, residual: tl.tensor, result: tl.tensor, row: tl.tensor,
    column: tl.tensor, source: tl.tensor, rows: tl.tensor, outputs: tl.tensor,
    COLUMNS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """Bias, gate and residual on float32 ``sums (16, COLUMNS)``; rounds once and stores."""
    if bias is not None:
        offset = tl.load(bias + source, mask=column < outputs, other=0.0).to(tl.float32)
        sums = sums + offset[None, :]
    if GATED:
        gate, other = tl.split(tl.reshape(sums, (ROWS, COLUMNS // 2, 2)))
        sums = gate * tl.sigmoid(gate) * other
        column = tl.program_id(2) * (COLUMNS // 2) + tl.arange(0, COLUMNS // 2)
        outputs = outputs // 2
    there = (row < rows)[:, None] & (column < outputs)[None, :]
    place = row.to(tl.int64)[:, None] * outputs + column[None, :]
    if residual is not None:
        sums = sums + tl.load(residual + place, mask=there, other=0.0).to(tl.float32)
    tl.store(result + place, sums.to(result.dtype.element_ty), mask=there)


@triton.jit
def normalise_rows(
    x: tl.tensor, weight: tl.tensor, residual: tl.tensor, result: tl.tensor, width: tl.tensor,
    epsilon: tl.tensor, DEPTH: tl.constexpr,
) -> None:  # fmt: skip
    """Write the RMSNorm of ``x (rows, width)`` plus ``residual``. One program a row, in two passes."""
    row = tl.program_id(0).to(tl.int64) * width
    square = tl.zeros((DEPTH,), tl.float32)
    for start in range(0, width, DEPTH):
        place = start + tl.arange(0, DEPTH)
        values = tl.load(x + row + place, mask=place < width, other=0.0).to(tl.float32)
        square += values * values
    factor = norm_factor(tl.sum(square, 0), width, epsilon)
    for start in range(0, width, DEPTH):
        place = start + tl.arange(0, DEPTH)
        there = place < width
        values = tl.load(x + row + place, mask=there, other=0.0).to(tl.float32)
        values = values * factor * tl.load(weight + place, mask=there, other=0.0).to(tl.float32)
        if residual is not None:
            values += tl.load(residual + row + place, mask=there, other=0.0).to(tl.float32)
        tl.store(result + row + place, values.to(result.dtype.element_ty), mask=there)
