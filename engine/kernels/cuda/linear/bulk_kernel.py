"""The kernel that finishes many rows after cuBLAS: scales, bias, gate and residual in one pass."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def finish_rows(
    sums: tl.tensor, scales: tl.tensor, weight_scales: tl.tensor, bias: tl.tensor,
    residual: tl.tensor, result: tl.tensor, outputs: tl.tensor, GATED: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    """Write ``result (rows, outputs)`` from ``sums``, twice as wide if ``GATED``. Program: (row, block).

    ``scales (rows,)`` and ``weight_scales`` belong to int8's integer sums and are None for others.
    """
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = column < outputs
    width = 2 * outputs if GATED else outputs
    value = _value(sums + row * width, scales, weight_scales, bias, row, column, mask)
    if GATED:
        other = _value(sums + row * width, scales, weight_scales, bias, row, column + outputs, mask)
        value = value * tl.sigmoid(value) * other
    offset = row * outputs + column
    if residual is not None:
        value += tl.load(residual + offset, mask=mask, other=0.0).to(tl.float32)
    tl.store(result + offset, value.to(result.dtype.element_ty), mask=mask)


@triton.jit
def _value(
    sums: tl.tensor, scales: tl.tensor, weight_scales: tl.tensor, bias: tl.tensor, row: tl.tensor,
    column: tl.tensor, mask: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Return columns of one row's ``sums``, scaled and with the bias, in float32."""
    value = tl.load(sums + column, mask=mask, other=0).to(tl.float32)
    if scales is not None:
        value = value * tl.load(weight_scales + column, mask=mask, other=0.0)
        value = value * tl.load(scales + row)
    if bias is not None:
        value += tl.load(bias + column, mask=mask, other=0.0).to(tl.float32)
    return value
