"""The kernels for NF4 weights in bitsandbytes' layout: multiply, and dequantise for many rows.

A byte has the codes of two inputs, the first in its high half; 64 inputs of an output share a scale.
``nf4_gemm`` decodes codes to bf16 in registers, multiplies them on tensor cores, and multiplies each
group's sums by its scale in float32, so it rounds only what ``reference.FloatReference`` rounds. High and
low halves are two products, so that decoded weights need no shuffle.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.linear.float_weights import epilogue
from engine.kernels.cuda.linear.parts import ROWS, float_rows, own_columns, own_rows
from engine.kernels.formats import nf4

GROUP = tl.constexpr(nf4.GROUP)
BYTES = 2048
"""Packed bytes that one program dequantises: eight a thread."""

_DECODE_TWO = """
    prmt.b32 a, 0xbebfbfbf, 0x00bdbebe, index;
    prmt.b32 b, 0x3e3e3e3d, 0x3f3f3f3e, index;
    prmt.b32 mask, 0x0000ff00, 0, upper;
    lop3.b32 high, mask, b, a, 0xca;
    prmt.b32 a, 0xca063280, 0x00ba3d92, index;
    prmt.b32 b, 0xad7c25a3, 0x803910e2, index;
    lop3.b32 low, mask, b, a, 0xca;
    prmt.b32 $%d, low, high, 0x7351;
    prmt.b32 $%d, low, high, 0x6240;
"""
DECODE = tl.constexpr(
    f"""
    {{
    .reg .b32 index, upper, high, low, a, b, mask;
    and.b32 index, $4, 0x77777777;
    shr.b32 upper, $4, 3;
    and.b32 upper, upper, 0x11111111;
    {_DECODE_TWO % (0, 2)}
    shr.b32 index, index, 16;
    shr.b32 upper, upper, 16;
    {_DECODE_TWO % (1, 3)}
    }}
    """
)
"""Decode four bytes to the codes of their high halves ($0, $1) and of their low halves ($2, $3).

``prmt`` looks four half bytes up in a table of eight bytes at once. Upper and lower bytes of codes each
have two tables, for indices below 8 and from 8 on; bit 3 of an index chooses one.
"""


@triton.jit
def decode(packed: tl.tensor, codes: tl.tensor) -> tl.tensor:
    """Return the bf16 codes of the high and of the low halves of ``packed`` uint8, both of its shape.

    ``codes`` is None on a GPU. The interpreter has no assembler, so it looks them up in ``codes (16,)``.
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
    """Return the scales of the group of inputs at ``start``: (columns,) float32."""
    group = tl.minimum(start, width - GROUP) // GROUP  # the prefetch of the last step is not used
    offset = group.to(tl.int64) * outputs + column
    return tl.load(absmax + offset, mask=column < outputs, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def nf4_gemm(
    x: tl.tensor, packed: tl.tensor, absmax: tl.tensor, codes: tl.tensor, norm: tl.tensor,
    bias: tl.tensor, residual: tl.tensor, result: tl.tensor, partial: tl.tensor,
    squares: tl.tensor, counters: tl.tensor, rows: tl.tensor, outputs: tl.tensor,
    width: tl.tensor, span: tl.tensor, epsilon: tl.tensor, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """Multiply ``x (rows, width)`` by ``packed (outputs, width / 2)``, with its fusion.

    ``DEPTH`` is one group of inputs, and ``width`` a multiple of it. ``absmax (width / 64, outputs)``
    of any float dtype has the order of ``own_columns``. Scales are loaded one step ahead.
    """
    row = own_rows()
    column, source = own_columns(outputs, COLUMNS, GATED)
    mask = column < outputs
    packed += source.to(tl.int64)[:, None] * (width // 2)
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    square = tl.zeros((ROWS, DEPTH), tl.float32)
    first = tl.program_id(1) * span
    next_scale = _scales(absmax, first, column, outputs, width)
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        values, squared = float_rows(x, norm, row, start + tl.arange(0, DEPTH), rows, width)
        square += squared
        pairs = start // 2 + tl.arange(0, DEPTH // 2)
        tile = tl.load(packed + pairs[None, :], mask=mask[:, None], other=0)
        scale, next_scale = next_scale, _scales(absmax, start + DEPTH, column, outputs, width)
        high, low = decode(tile, codes)
        first_of_pair, second_of_pair = tl.split(tl.reshape(values, (ROWS, DEPTH // 2, 2)))
        group = tl.dot(first_of_pair, tl.trans(high))
        group = tl.dot(second_of_pair, tl.trans(low), group)
        acc += group * scale[None, :]
    epilogue(
        acc, tl.sum(square, 1), norm, bias, residual, result, partial, squares, counters,
        row, column, source, rows, outputs, width, epsilon, COLUMNS, SPLITS, GATED,
    )  # fmt: skip


@triton.jit
def dequantise_kernel(
    packed: tl.tensor, absmax: tl.tensor, codes: tl.tensor, result: tl.tensor, count: tl.tensor,
    BYTES: tl.constexpr,
) -> None:  # fmt: skip
    """Write ``count`` bytes of ``packed`` as twice as many bf16; ``absmax`` of any float dtype."""
    first = tl.program_id(0).to(tl.int64) * BYTES
    offset = first + tl.arange(0, BYTES)
    mask = offset < count
    high, low = decode(tl.load(packed + offset, mask=mask, other=0), codes)
    scale = tl.load(absmax + offset // (GROUP // 2), mask=mask, other=0.0).to(tl.float32)
    pairs = tl.join(high.to(tl.float32) * scale, low.to(tl.float32) * scale)
    values = tl.reshape(pairs, (2 * BYTES,)).to(tl.bfloat16)
    at = 2 * first + tl.arange(0, 2 * BYTES)
    tl.store(result + at, values, mask=at < 2 * count)


def dequantise(packed: Tensor, absmax: Tensor, count: int) -> Tensor:
    """Return the first ``count`` weights, an even number, as flat bf16, rounded once."""
    result = torch.empty(count, dtype=torch.bfloat16, device=packed.device)
    codes = interpreter_codes(packed.device)
    dequantise_kernel[(triton.cdiv(count // 2, BYTES),)](
        packed, absmax, codes, result, count // 2,
        BYTES=BYTES, num_warps=8, enable_fp_fusion=False,
    )  # fmt: skip
    return result


def interpreter_codes(device: torch.device) -> Tensor | None:
    """Return the table of codes where the interpreter runs the kernels, on the CPU; None on a GPU."""
    return nf4.CODE.bfloat16() if device.type == "cpu" else None
