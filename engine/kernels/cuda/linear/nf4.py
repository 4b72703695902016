"""Products with NF4 weights in bitsandbytes' layout.

The torch reference is ``reference.FloatReference``.

A byte holds the codes of two inputs, the first in its high half; 64 inputs of an output share a scale.
Codes are decoded in registers to bf16, multiplied with the rows on tensor cores, and each block's sums
multiplied by its scale in float32: no product is rounded that the reference does not round. The inputs
of high and low halves are two products, so that decoded weights never change places.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.cuda.linear.float_weights import epilogue
from engine.kernels.cuda.linear.parts import ROWS, float_rows, own_columns, own_rows
from engine.kernels.formats import nf4

GROUP = tl.constexpr(nf4.GROUP)

DECODE = tl.constexpr(
    """
    {
    .reg .b32 index, upper, high, low, a, b, mask;
    and.b32 index, $4, 0x77777777;
    shr.b32 upper, $4, 3;
    and.b32 upper, upper, 0x11111111;
    prmt.b32 a, 0xbebfbfbf, 0x00bdbebe, index;
    prmt.b32 b, 0x3e3e3e3d, 0x3f3f3f3e, index;
    prmt.b32 mask, 0x0000ff00, 0, upper;
    lop3.b32 high, mask, b, a, 0xca;
    prmt.b32 a, 0xca063280, 0x00ba3d92, index;
    prmt.b32 b, 0xad7c25a3, 0x803910e2, index;
    lop3.b32 low, mask, b, a, 0xca;
    prmt.b32 $0, low, high, 0x7351;
    prmt.b32 $2, low, high, 0x6240;
    shr.b32 index, index, 16;
    shr.b32 upper, upper, 16;
    prmt.b32 a, 0xbebfbfbf, 0x00bdbebe, index;
    prmt.b32 b, 0x3e3e3e3d, 0x3f3f3f3e, index;
    prmt.b32 mask, 0x0000ff00, 0, upper;
    lop3.b32 high, mask, b, a, 0xca;
    prmt.b32 a, 0xca063280, 0x00ba3d92, index;
    prmt.b32 b, 0xad7c25a3, 0x803910e2, index;
    lop3.b32 low, mask, b, a, 0xca;
    prmt.b32 $1, low, high, 0x7351;
    prmt.b32 $3, low, high, 0x6240;
    }
    """
)
"""Four bytes to four codes of their high halves ($0, $1) and four of their low halves ($2, $3).

``prmt`` looks four half bytes up in a table of eight bytes at once. The codes' upper and lower bytes
have a table for the indices below 8 and one for those above; bit 3 of an index chooses between them.
"""


@triton.jit
def decoded(packed: tl.tensor, codes: tl.tensor) -> tl.tensor:
    """``packed`` uint8 to bf16 codes of the high and of the low halves, each of the same shape.

    ``codes`` is None on a GPU. The interpreter has no assembler and looks them up in ``codes (16,)``.
    """
    if codes is None:
        return tl.inline_asm_elementwise(
            DECODE,
            "=r,=r,=r,=r,r",
            [packed],
            dtype=(tl.bfloat16, tl.bfloat16),
            is_pure=True,
            pack=4,
        )
    else:
        wide = packed.to(tl.int32)
        return tl.load(codes + (wide >> 4)), tl.load(codes + (wide & 15))


@triton.jit
def _scales(
    absmax: tl.tensor, start: tl.tensor, column: tl.tensor, outputs: tl.tensor, width: tl.tensor
) -> tl.tensor:
    """The scales of the group of inputs at ``start``: (columns,) float32. Asked for one step ahead."""
    group = tl.minimum(start, width - GROUP) // GROUP  # the last step asks for nothing new
    place = group.to(tl.int64) * outputs + column
    return tl.load(absmax + place, mask=column < outputs, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def nf4_gemm(
    x: tl.tensor, packed: tl.tensor, absmax: tl.tensor, codes: tl.tensor, norm: tl.tensor,
    bias: tl.tensor, residual: tl.tensor, result: tl.tensor, partial: tl.tensor,
    squares: tl.tensor, counters: tl.tensor, rows: tl.tensor, outputs: tl.tensor,
    width: tl.tensor, span: tl.tensor, epsilon: tl.tensor, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """``x (rows, width)`` times ``packed (outputs, width / 2)``, with its fusion.

    ``DEPTH`` is one group of inputs, and ``width`` a multiple of it.
    ``absmax (width / 64, outputs)`` of any float dtype, in the order of the sums' columns.
    """
    row = own_rows()
    column, source = own_columns(outputs, COLUMNS, GATED)
    there = column < outputs
    packed += source.to(tl.int64)[:, None] * (width // 2)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    square = tl.zeros((ROWS, DEPTH), tl.float32)
    first = tl.program_id(1) * span
    coming = _scales(absmax, first, column, outputs, width)
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        values, squared = float_rows(x, norm, row, start + tl.arange(0, DEPTH), rows, width)
        square += squared
        pairs = start // 2 + tl.arange(0, DEPTH // 2)
        tile = tl.load(packed + pairs[None, :], mask=there[:, None], other=0)
        scale, coming = coming, _scales(absmax, start + DEPTH, column, outputs, width)
        high, low = decoded(tile, codes)
        first_of_pair, second_of_pair = tl.split(tl.reshape(values, (ROWS, DEPTH // 2, 2)))
        group = tl.dot(first_of_pair, tl.trans(high))
        group = tl.dot(second_of_pair, tl.trans(low), group)
        sums += group * scale[None, :]
    epilogue(
        sums, tl.sum(square, 1), norm, bias, residual, result, partial, squares, counters,
        row, column, source, rows, outputs, width, epsilon, COLUMNS, SPLITS, GATED,
    )  # fmt: skip
