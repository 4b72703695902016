"""Device functions that the linear kernels share: indices, split-K sums and the epilogue; and a norm.

The grid is (tiles of 16 rows, splits of the inputs, tiles of outputs). Where each row has a weight of its
own, an expert's, a tile has one row, in the first of 16 places. Programs that read the same part
of a weight are adjacent in it. ``engine.kernels.cuda.references`` has the same in torch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.linear import tiles

ROWS = tl.constexpr(tiles.ROWS)
"""Rows of one tile; missing rows are zeros in registers."""


@triton.jit
def own_rows(rows: tl.tensor, experts: tl.tensor) -> tl.tensor:
    """Return the rows of this program: (16,) int32; those that are missing are not below ``rows``."""
    place = tl.arange(0, ROWS)
    if experts is None:
        return tl.program_id(0) * ROWS + place
    else:
        return tl.where(place == 0, tl.program_id(0), rows)


@triton.jit
def of_expert(tensor: tl.tensor, experts: tl.tensor, size: tl.tensor) -> tl.tensor:
    """Return the pointer to what this program's row needs of ``tensor``: ``size`` numbers an expert."""
    if tensor is None or experts is None:
        return tensor
    else:
        return tensor + tl.load(experts + tl.program_id(0)).to(tl.int64) * size


@triton.jit
def own_columns(outputs: tl.tensor, COLUMNS: tl.constexpr, GATED: tl.constexpr) -> tl.tensor:
    """Return this tile's columns and the weight row of each: (COLUMNS,) int32 both.

    A gate's output and the one it multiplies are adjacent, so that one thread holds both.
    """
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    source = column
    if GATED:
        source = column // 2 + (column % 2) * (outputs // 2)
    return column, source


@triton.jit
def float_rows(
    x: tl.tensor, row: tl.tensor, inputs: tl.tensor, rows: tl.tensor, width: tl.tensor
) -> tl.tensor:
    """Return the inputs of these rows in bf16: (16, inputs)."""
    mask = (row < rows)[:, None] & (inputs < width)[None, :]
    values = tl.load(x + row.to(tl.int64)[:, None] * width + inputs[None, :], mask=mask, other=0.0)
    return values.to(tl.bfloat16)


@triton.jit
def group_values(
    values: tl.tensor, start: tl.tensor, column: tl.tensor, source: tl.tensor,
    outputs: tl.tensor, width: tl.tensor, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    GROUP: tl.constexpr, EACH: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the value of every ``EACH`` inputs of a step: (COLUMNS, DEPTH / EACH).

    ``values (width / GROUP, outputs)`` of groups are read at ``source``.
    """
    group = start // GROUP + tl.arange(0, DEPTH // GROUP)
    mask = (group < width // GROUP)[:, None] & (column < outputs)[None, :]
    offset = group.to(tl.int64)[:, None] * outputs + source[None, :]
    turned = tl.trans(tl.load(values + offset, mask=mask, other=0.0))[:, :, None]
    each = tl.broadcast_to(turned, (COLUMNS, DEPTH // GROUP, GROUP // EACH))
    return tl.reshape(each, (COLUMNS, DEPTH // EACH))


@triton.jit
def own_counter(counters: tl.tensor) -> tl.tensor:
    """Return the pointer to the counter of this program's tile."""
    return counters + tl.program_id(0) * tl.num_programs(2) + tl.program_id(2)


@triton.jit
def publish_sums(
    partial: tl.tensor, acc: tl.tensor, row: tl.tensor, column: tl.tensor, rows: tl.tensor,
    outputs: tl.tensor,
) -> None:  # fmt: skip
    """Write this split's ``acc (16, COLUMNS)`` into ``partial (splits, rows, outputs)``."""
    offset = (tl.program_id(1) * rows + row).to(tl.int64)[:, None] * outputs + column[None, :]
    tl.store(partial + offset, acc, mask=(row < rows)[:, None] & (column < outputs)[None, :])


@triton.jit
def collect_sums(
    partial: tl.tensor, acc: tl.tensor, row: tl.tensor, column: tl.tensor, rows: tl.tensor,
    outputs: tl.tensor, SPLITS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the sum over all splits, in their order. Bypass the L1 cache, which may be stale."""
    mask = (row < rows)[:, None] & (column < outputs)[None, :]
    offset = row.to(tl.int64)[:, None] * outputs + column[None, :]
    total = tl.zeros_like(acc)
    for split in tl.static_range(SPLITS):
        at = partial + tl.cast(split * rows, tl.int64) * outputs + offset
        total += tl.load(at, mask=mask, other=0, cache_modifier=".cg")
    return total


@triton.jit
def norm_factor(square: tl.tensor, width: tl.tensor, epsilon: tl.tensor) -> tl.tensor:
    """Return 1 / sqrt(mean square + epsilon) of a row's sum of squares, in float32."""
    # Triton makes a width of 1 a constant; ``cast`` takes both.
    mean = tl.div_rn(square, tl.cast(width, tl.float32))
    return tl.div_rn(1.0, tl.sqrt_rn(mean + epsilon))


@triton.jit
def finish(
    acc: tl.tensor, bias: tl.tensor, residual: tl.tensor, result: tl.tensor, row: tl.tensor,
    column: tl.tensor, source: tl.tensor, rows: tl.tensor, outputs: tl.tensor,
    COLUMNS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """Apply bias, gate and residual to float32 ``acc (16, COLUMNS)``, round once and store."""
    if bias is not None:
        added = tl.load(bias + source, mask=column < outputs, other=0.0).to(tl.float32)
        acc = acc + added[None, :]
    if GATED:
        gate, other = tl.split(tl.reshape(acc, (ROWS, COLUMNS // 2, 2)))
        acc = gate * tl.sigmoid(gate) * other
        column = tl.program_id(2) * (COLUMNS // 2) + tl.arange(0, COLUMNS // 2)
        outputs = outputs // 2
    mask = (row < rows)[:, None] & (column < outputs)[None, :]
    offset = row.to(tl.int64)[:, None] * outputs + column[None, :]
    if residual is not None:
        acc = acc + tl.load(residual + offset, mask=mask, other=0.0).to(tl.float32)
    tl.store(result + offset, acc.to(result.dtype.element_ty), mask=mask)


@triton.jit
def normalise_rows(
    x: tl.tensor, weight: tl.tensor, residual: tl.tensor, result: tl.tensor, width: tl.tensor,
    epsilon: tl.tensor, DEPTH: tl.constexpr,
) -> None:  # fmt: skip
    """Write the RMSNorm of ``x (rows, width)`` plus ``residual``. One program a row, in two passes."""
    row = tl.program_id(0).to(tl.int64) * width
    square = tl.zeros((DEPTH,), tl.float32)
    for start in range(0, width, DEPTH):
        offset = start + tl.arange(0, DEPTH)
        values = tl.load(x + row + offset, mask=offset < width, other=0.0).to(tl.float32)
        square += values * values
    factor = norm_factor(tl.sum(square, 0), width, epsilon)
    for start in range(0, width, DEPTH):
        offset = start + tl.arange(0, DEPTH)
        mask = offset < width
        values = tl.load(x + row + offset, mask=mask, other=0.0).to(tl.float32)
        values = values * factor * tl.load(weight + offset, mask=mask, other=0.0).to(tl.float32)
        if residual is not None:
            values += tl.load(residual + row + offset, mask=mask, other=0.0).to(tl.float32)
        tl.store(result + row + offset, values.to(result.dtype.element_ty), mask=mask)
