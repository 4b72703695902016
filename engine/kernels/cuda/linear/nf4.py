"""The kernels for NF4 weights in bitsandbytes' layout: multiply, and dequantise for many rows.

A byte has the codes of two inputs, the first in its high half; 64 inputs of an output share a scale.
Codes times scales are rounded to bf16 in registers, as bitsandbytes' ``dequantize_4bit`` rounds them, and
multiplied on tensor cores. High and low halves are two products, so that decoded weights need no shuffle.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.linear.float_weights import epilogue
from engine.kernels.cuda.linear.parts import (
    ROWS,
    float_rows,
    group_values,
    of_expert,
    own_columns,
    own_rows,
)
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
    prmt.b32 a, low, high, 0x7351;
    prmt.b32 b, low, high, 0x6240;
    fma.rn.bf16x2 $%d, a, $5, zero;
    fma.rn.bf16x2 $%d, b, $5, zero;
"""
DECODE = tl.constexpr(
    f"""
    {{
    .reg .b32 index, upper, high, low, a, b, mask, zero;
    mov.b32 zero, 0x80008000;
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
"""Decode four bytes to the weights of their high halves ($0, $1) and of their low halves ($2, $3).

``prmt`` looks four half bytes up in a table of eight bytes at once. Upper and lower bytes of codes each
have two tables, for indices below 8 and from 8 on; bit 3 of an index chooses one. $5 has the scale
twice; ``zero`` is -0.0 twice, which changes no product.
"""


@triton.jit
def decode(packed: tl.tensor, scale: tl.tensor, codes: tl.tensor) -> tl.tensor:
    """Return the bf16 weights of the high and of the low halves of ``packed`` uint8, both of its shape.

    ``scale`` bf16 has its shape too, and one value for every four neighbours. ``codes`` is None on a GPU.
    The interpreter has no assembler, so it looks them up in ``codes (16,)``.
    """
    if codes is None:
        return tl.inline_asm_elementwise(
            DECODE,
            "=r,=r,=r,=r,r,r,r",
            [packed, scale],
            dtype=(tl.bfloat16, tl.bfloat16),
            is_pure=True,
            pack=4,
        )
    else:
        wide, factor = packed.to(tl.int32), scale.to(tl.float32)
        high = tl.load(codes + (wide >> 4)).to(tl.float32) * factor
        low = tl.load(codes + (wide & 15)).to(tl.float32) * factor
        return high.to(tl.bfloat16), low.to(tl.bfloat16)


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def nf4_gemm(
    x: tl.tensor, packed: tl.tensor, absmax: tl.tensor, codes: tl.tensor, bias: tl.tensor,
    residual: tl.tensor, result: tl.tensor, partial: tl.tensor, counters: tl.tensor,
    experts: tl.tensor, rows: tl.tensor, outputs: tl.tensor, width: tl.tensor, span: tl.tensor,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
) -> None:  # fmt: skip
    """Multiply ``x (rows, width)`` by ``packed (outputs, width / 2)``, with its fusion.

    ``DEPTH`` and ``width`` are whole groups of inputs. ``absmax (width / 64, outputs)`` bf16 has the
    order of ``own_columns``. ``experts`` as in ``bf16_gemm``.
    """
    row = own_rows(rows, experts)
    packed = of_expert(packed, experts, outputs * (width // 2))
    absmax = of_expert(absmax, experts, outputs * (width // GROUP))
    bias = of_expert(bias, experts, outputs)
    column, source = own_columns(outputs, COLUMNS, GATED)
    packed += source.to(tl.int64)[:, None] * (width // 2)
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(1) * span
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        values = float_rows(x, row, start + tl.arange(0, DEPTH), rows, width)
        pairs = start // 2 + tl.arange(0, DEPTH // 2)
        mask = (column < outputs)[:, None] & (pairs < width // 2)[None, :]
        tile = tl.load(packed + pairs[None, :], mask=mask, other=0)
        scale = group_values(
            absmax, start, column, column, outputs, width, COLUMNS, DEPTH, GROUP, 2
        )
        high, low = decode(tile, scale, codes)
        first_of_pair, second_of_pair = tl.split(tl.reshape(values, (ROWS, DEPTH // 2, 2)))
        acc = tl.dot(first_of_pair, tl.trans(high), acc)
        acc = tl.dot(second_of_pair, tl.trans(low), acc)
    epilogue(
        acc, bias, residual, result, partial, counters, row, column, source, rows, outputs,
        COLUMNS, SPLITS, GATED,
    )  # fmt: skip


@triton.jit
def dequantise_kernel(
    packed: tl.tensor, absmax: tl.tensor, codes: tl.tensor, result: tl.tensor, count: tl.tensor,
    BYTES: tl.constexpr,
) -> None:  # fmt: skip
    """Write ``count`` bytes of ``packed`` as twice as many bf16; ``absmax`` bf16."""
    first = tl.program_id(0).to(tl.int64) * BYTES
    offset = first + tl.arange(0, BYTES)
    mask = offset < count
    scale = tl.load(absmax + offset // (GROUP // 2), mask=mask, other=0.0)
    high, low = decode(tl.load(packed + offset, mask=mask, other=0), scale, codes)
    at = 2 * first + tl.arange(0, 2 * BYTES)
    tl.store(result + at, tl.reshape(tl.join(high, low), (2 * BYTES,)), mask=at < 2 * count)


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
