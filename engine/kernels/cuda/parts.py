"""What the three products share: where a program stands, partial sums, and what follows the sum.

The grid is (blocks of 16 rows, splits of the inputs, tiles of outputs). Programs of one tile stand side
by side, so that a weight's rows are read in order. torch's meaning of all of this is in ``reference``.
"""

from __future__ import annotations

import triton
import triton.language as tl

ROWS = tl.constexpr(16)
"""Rows of one tile: the least that tensor cores take. Rows that are not there are zeros in registers."""


@triton.jit
def own_rows():
    """The rows of this program: (16,) int32."""
    return tl.program_id(0) * ROWS + tl.arange(0, ROWS)


@triton.jit
def own_columns(outputs, COLUMNS: tl.constexpr, GATED: tl.constexpr):
    """The sums' columns and the weight rows they belong to: (COLUMNS,) int32 each.

    A gate's output and the one it multiplies stand side by side, so that one thread holds both.
    """
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    source = column
    if GATED:
        source = column // 2 + (column % 2) * (outputs // 2)
    return column, source


@triton.jit
def float_rows(x, norm, row, inputs, rows, width):
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
def arrive(arrivals):
    """Tells that this program's partial sums are written; returns how many had come before it.

    All threads' stores must precede the count, and the count precede all loads: hence the barrier, and
    acquire-release. Integer counting has no order, so this does not touch a sum's bits.
    """
    tl.debug_barrier()
    place = tl.program_id(0) * tl.num_programs(2) + tl.program_id(2)
    before = tl.atomic_add(arrivals + place, 1, sem="acq_rel", scope="gpu")
    if before == tl.num_programs(1) - 1:
        tl.store(arrivals + place, 0)  # ready for the next launch
    return before


@triton.jit
def publish_sums(partial, sums, row, column, rows, outputs):
    """Writes this split's ``sums (16, COLUMNS)`` into ``partial (splits, rows, outputs)``."""
    place = (tl.program_id(1) * rows + row).to(tl.int64)[:, None] * outputs + column[None, :]
    tl.store(partial + place, sums, mask=(row < rows)[:, None] & (column < outputs)[None, :])


@triton.jit
def collect_sums(partial, sums, row, column, rows, outputs, SPLITS: tl.constexpr):
    """The sums of all splits, added from the first to the last. Past the L1 cache, which may be stale."""
    there = (row < rows)[:, None] & (column < outputs)[None, :]
    place = row.to(tl.int64)[:, None] * outputs + column[None, :]
    total = tl.zeros_like(sums)
    for split in tl.static_range(SPLITS):
        at = partial + tl.cast(split * rows, tl.int64) * outputs + place
        total += tl.load(at, mask=there, other=0, cache_modifier=".cg")
    return total


@triton.jit
def publish_squares(squares, square, row, rows):
    """Writes the rows' sums of squares ``(16,)`` into ``squares (tiles, splits, rows)``."""
    place = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * rows + row
    tl.store(squares + place, square, mask=row < rows)


@triton.jit
def collect_squares(squares, square, row, rows, SPLITS: tl.constexpr):
    """The squares of all splits, added from the first to the last."""
    total = tl.zeros_like(square)
    for split in tl.static_range(SPLITS):
        place = (tl.program_id(2) * SPLITS + split) * rows + row
        total += tl.load(squares + place, mask=row < rows, other=0.0, cache_modifier=".cg")
    return total


@triton.jit
def norm_factor(square, width, epsilon):
    """1 / sqrt(mean square + epsilon) of each row: (16,) float32."""
    return tl.div_rn(1.0, tl.sqrt_rn(tl.div_rn(square, width.to(tl.float32)) + epsilon))


@triton.jit
def finish(
    sums, bias, residual, result, row, column, source, rows, outputs,
    COLUMNS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
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
