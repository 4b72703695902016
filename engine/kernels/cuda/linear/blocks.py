"""The kernels for GGUF's blocks and NF4 in planes (``block_planes``): multiply, and dequantise for many
rows.

A code in the mantissa of 128 is 128 + code in bf16, so two codes take one mask. Subtracting 128 and the
middle of all codes is exact, and ``fma`` then gives scale * code + low, rounded once. Eight weights of
four bits take 15 instructions, where NF4's table takes 27. Even and odd inputs are two products.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.linear.float_weights import epilogue
from engine.kernels.cuda.linear.nf4 import decode_table
from engine.kernels.cuda.linear.parts import (
    ROWS,
    float_rows,
    group_values,
    of_expert,
    own_columns,
    own_rows,
)
from engine.kernels.formats.block_planes import BlockPlanes, Form

_SHIFTS = (0, 8, 4, 12)
"""Where a word has the codes of $0 to $3: pairs of even inputs, then of odd ones."""
_HIGH = {
    4: ("", "", (0,) * 4, 0),
    # A byte, twice: bit n of its lower half belongs to the lower half of $n, of the upper to the upper.
    5: (
        "and.b32 high, $9, 0x000000ff;",
        "mul.lo.u32 high, high, 0x1001;",
        (4, 3, 2, 1),
        0x00100010,
    ),
    # Two bytes, one for each half of a word: bits 2n and 2n + 1 belong to $n.
    6: ("prmt.b32 high, $9, 0, 0x4140;", "", (4, 2, 0, -2), 0x00300030),
}


def _assembly(bits: int) -> str:
    """Return what decodes a word: $4 codes, $5 scale twice, $7 low twice, $9 upper bits of all eight."""
    first, second, places, mask = _HIGH[bits]
    lines = ["{", ".reg .b32 word, high, part, one, base;"]
    base = 0xC300C300 + 0x00010001 * Form(bits, 0).middle  # -128 - middle, twice
    lines += ["mov.b32 one, 0x3f803f80;", f"mov.b32 base, {base:#010x};", first, second]
    for at, (shift, place) in enumerate(zip(_SHIFTS, places, strict=True)):
        lines.append(f"shr.b32 word, $4, {shift};" if shift else "mov.b32 word, $4;")
        lines.append("lop3.b32 word, word, 0x000f000f, 0x43004300, 0xea;")
        if mask:
            move = (
                f"shl.b32 part, high, {place};" if place >= 0 else f"shr.b32 part, high, {-place};"
            )
            lines += [move, f"lop3.b32 word, part, {mask:#010x}, word, 0xea;"]
        lines += ["fma.rn.bf16x2 word, word, one, base;", f"fma.rn.bf16x2 ${at}, word, $5, $7;"]
    return "\n".join([*filter(None, lines), "}"])


DECODE_4, DECODE_5, DECODE_6 = (tl.constexpr(_assembly(bits)) for bits in (4, 5, 6))
DECODE_8 = tl.constexpr(
    """
    {
    .reg .b32 word, part, one;
    mov.b32 one, 0x3f803f80;
    lop3.b32 word, $2, 0x007f007f, 0x43004300, 0xea;
    lop3.b32 part, $2, 0x00800080, 0xc300c300, 0xea;
    fma.rn.bf16x2 word, word, one, part;
    fma.rn.bf16x2 $0, word, $3, $5;
    shr.b32 word, $2, 8;
    lop3.b32 part, word, 0x00800080, 0xc300c300, 0xea;
    lop3.b32 word, word, 0x007f007f, 0x43004300, 0xea;
    fma.rn.bf16x2 word, word, one, part;
    fma.rn.bf16x2 $1, word, $3, $5;
    }
    """
)
"""Decode four signed bytes: seven bits of a code are in the mantissa of 128, and the sign makes the
subtracted 128 (0xc300) 256 (0xc380)."""


@triton.jit
def _decode_bytes(
    codes: tl.tensor, scale: tl.tensor, low: tl.tensor, ASSEMBLED: tl.constexpr
) -> tl.tensor:
    """Return the bf16 weights of ``codes`` int8. All have one shape; see ``_decode_halves``."""
    if ASSEMBLED:
        return tl.inline_asm_elementwise(
            DECODE_8,
            "=r,=r,r,r,r,r,r",
            [codes, scale, low],
            dtype=tl.bfloat16,
            is_pure=True,
            pack=4,
        )
    else:
        return _scaled(codes, scale, low)


@triton.jit
def _decode_halves(
    codes: tl.tensor, scale: tl.tensor, low: tl.tensor, high: tl.tensor, BITS: tl.constexpr,
    ASSEMBLED: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the bf16 weights of even and of odd inputs, both of the shape of ``codes`` uint8.

    ``scale``, ``low`` bf16 and ``high`` have its shape too, and one value for every four neighbours.
    The interpreter has no assembler (not ``ASSEMBLED``), so it computes them one by one.
    """
    if ASSEMBLED:
        if BITS == 4:
            return tl.inline_asm_elementwise(
                DECODE_4, "=r,=r,=r,=r,r,r,r,r,r", [codes, scale, low],
                dtype=(tl.bfloat16, tl.bfloat16), is_pure=True, pack=4,
            )  # fmt: skip
        elif BITS == 5:
            return tl.inline_asm_elementwise(
                DECODE_5, "=r,=r,=r,=r,r,r,r,r,r,r", [codes, scale, low, high],
                dtype=(tl.bfloat16, tl.bfloat16), is_pure=True, pack=4,
            )  # fmt: skip
        else:
            return tl.inline_asm_elementwise(
                DECODE_6, "=r,=r,=r,=r,r,r,r,r,r,r,r", [codes, scale, low, high],
                dtype=(tl.bfloat16, tl.bfloat16), is_pure=True, pack=4,
            )  # fmt: skip
    else:
        even, odd = codes.to(tl.int32) & 15, codes.to(tl.int32) >> 4
        if BITS > 4:
            upper = BITS - 4
            mask = (1 << upper) - 1
            at = tl.arange(0, codes.shape[1])[None, :] % 4
            first = (at % 2) * 4 * upper + at // 2 * upper
            wide = high.to(tl.int32)
            even |= ((wide >> first) & mask) << 4
            odd |= ((wide >> (first + 2 * upper)) & mask) << 4
        middle = 1 << (BITS - 1)
        return _scaled(even - middle, scale, low), _scaled(odd - middle, scale, low)


@triton.jit
def _scaled(codes: tl.tensor, scale: tl.tensor, low: tl.tensor) -> tl.tensor:
    """Return scale * code + low in bf16."""
    product = codes.to(tl.float32) * scale.to(tl.float32)
    return (product + low.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def _in_order(index: tl.tensor, ASSEMBLED: tl.constexpr) -> tl.tensor:
    """Return where the bytes of a word lie: the assembler swaps the two in the middle itself."""
    if ASSEMBLED:
        return index
    else:
        return index - index % 4 + index % 2 * 2 + index % 4 // 2


@triton.jit
def _weights(
    codes: tl.tensor, high: tl.tensor, scales: tl.tensor, lows: tl.tensor, start: tl.tensor,
    column: tl.tensor, source: tl.tensor, outputs: tl.tensor, width: tl.tensor, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, BITS: tl.constexpr, GROUP: tl.constexpr, TABLE: tl.constexpr,
    ASSEMBLED: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return a step's bf16 weights, from input ``start`` on: of even and odd ones (COLUMNS, DEPTH / 2).

    Of codes of eight bits all, (COLUMNS, DEPTH).
    """
    within = (column < outputs)[:, None]
    EACH: tl.constexpr = 1 if BITS == 8 else 2  # inputs in a byte
    at = start // EACH + tl.arange(0, DEPTH // EACH)
    row = source.to(tl.int64)[:, None]
    place = row * (width // EACH) + _in_order(at, ASSEMBLED or TABLE)[None, :]
    tile = tl.load(codes + place, mask=within & (at < width // EACH)[None, :], other=0)
    scale = group_values(scales, start, column, source, outputs, width, COLUMNS, DEPTH, GROUP, EACH)
    if lows is None:
        low = tl.zeros_like(scale)
    else:
        low = group_values(lows, start, column, source, outputs, width, COLUMNS, DEPTH, GROUP, EACH)
    if TABLE:
        return decode_table(tile, scale, ASSEMBLED)
    elif BITS == 8:
        return _decode_bytes(tile, scale, low, ASSEMBLED)
    else:
        upper = tile
        if BITS > 4:
            eights = start // 8 + tl.arange(0, DEPTH // 8)
            place = row * (width // 8) + eights[None, :]
            upper = tl.load(high + place, mask=within & (eights < width // 8)[None, :], other=0)
            upper = tl.broadcast_to(upper[:, :, None], (COLUMNS, DEPTH // 8, 4))
            upper = tl.reshape(upper, (COLUMNS, DEPTH // 2))
        return _decode_halves(tile, scale, low, upper, BITS, ASSEMBLED)


@triton.jit(do_not_specialize=["rows"])  # one program for every number of rows
def block_gemm(
    x: tl.tensor, codes: tl.tensor, high: tl.tensor, scales: tl.tensor, lows: tl.tensor,
    bias: tl.tensor, residual: tl.tensor, result: tl.tensor, partial: tl.tensor,
    counters: tl.tensor, experts: tl.tensor, rows: tl.tensor, outputs: tl.tensor,
    width: tl.tensor, span: tl.tensor, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    SPLITS: tl.constexpr, GATED: tl.constexpr, BITS: tl.constexpr, GROUP: tl.constexpr,
    TABLE: tl.constexpr, ASSEMBLED: tl.constexpr,
) -> None:  # fmt: skip
    """Multiply ``x (rows, width)`` by a weight in planes, with its fusion.

    ``experts`` as in ``bf16_gemm``.
    """
    row = own_rows(rows, experts)
    codes = of_expert(codes, experts, outputs * (width // (1 if BITS == 8 else 2)))
    high = of_expert(high, experts, outputs * (width // 8))
    scales = of_expert(scales, experts, outputs * (width // GROUP))
    lows = of_expert(lows, experts, outputs * (width // GROUP))
    bias = of_expert(bias, experts, outputs)
    column, source = own_columns(outputs, COLUMNS, GATED)
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(1) * span
    for start in range(first, tl.minimum(first + span, width), DEPTH):
        values = float_rows(x, row, start + tl.arange(0, DEPTH), rows, width)
        if BITS == 8:
            whole = _weights(
                codes, high, scales, lows, start, column, source, outputs, width,
                COLUMNS, DEPTH, BITS, GROUP, TABLE, ASSEMBLED,
            )  # fmt: skip
            acc = tl.dot(values, tl.trans(whole), acc)
        else:
            even, odd = _weights(
                codes, high, scales, lows, start, column, source, outputs, width,
                COLUMNS, DEPTH, BITS, GROUP, TABLE, ASSEMBLED,
            )  # fmt: skip
            evens, odds = tl.split(tl.reshape(values, (ROWS, DEPTH // 2, 2)))
            acc = tl.dot(evens, tl.trans(even), acc)
            acc = tl.dot(odds, tl.trans(odd), acc)
    epilogue(
        acc, bias, residual, result, partial, counters, row, column, source, rows, outputs,
        COLUMNS, SPLITS, GATED,
    )  # fmt: skip


@triton.jit
def dequantise_blocks(
    codes: tl.tensor, high: tl.tensor, scales: tl.tensor, lows: tl.tensor, result: tl.tensor,
    first: tl.tensor, stop: tl.tensor, outputs: tl.tensor, width: tl.tensor,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, BITS: tl.constexpr, GROUP: tl.constexpr,
    TABLE: tl.constexpr, ASSEMBLED: tl.constexpr,
) -> None:  # fmt: skip
    """Write outputs ``first`` to ``stop`` to ``result (stop - first, width)`` bf16.

    Program: (inputs, outputs).
    """
    column = first + tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start = tl.program_id(0) * DEPTH
    if BITS == 8:
        whole = _weights(
            codes, high, scales, lows, start, column, column, outputs, width,
            COLUMNS, DEPTH, BITS, GROUP, TABLE, ASSEMBLED,
        )  # fmt: skip
    else:
        even, odd = _weights(
            codes, high, scales, lows, start, column, column, outputs, width,
            COLUMNS, DEPTH, BITS, GROUP, TABLE, ASSEMBLED,
        )  # fmt: skip
        whole = tl.reshape(tl.join(even, odd), (COLUMNS, DEPTH))
    inputs = start + tl.arange(0, DEPTH)
    place = (column - first).to(tl.int64)[:, None] * width + inputs[None, :]
    tl.store(result + place, whole, mask=(column < stop)[:, None] & (inputs < width)[None, :])


TILE = {"COLUMNS": 32, "DEPTH": 256, "num_warps": 4}
"""What one program dequantises."""


def dequantise(weight: BlockPlanes, first: int, stop: int) -> Tensor:
    """Return outputs ``first`` to ``stop`` in bf16: (stop - first, inputs), as ``BlockPlanes`` does."""
    outputs, width = weight.shape
    result = torch.empty(stop - first, width, dtype=torch.bfloat16, device=weight.codes.device)
    grid = triton.cdiv(width, TILE["DEPTH"]), triton.cdiv(stop - first, TILE["COLUMNS"])
    dequantise_blocks[grid](
        *planes_of(weight), result, first, stop, outputs, width, **constants_of(weight), **TILE,
        enable_fp_fusion=False,
    )  # fmt: skip
    return result


def planes_of(weight: BlockPlanes) -> tuple[Tensor | None, ...]:
    """Return the kernels' arguments that hold the weight."""
    return weight.codes, weight.high, weight.scales, weight.lows


def constants_of(weight: BlockPlanes) -> dict[str, int]:
    """Return the kernels' compile-time arguments that say how."""
    form = weight.form
    return {
        "BITS": form.bits, "GROUP": form.group, "TABLE": form.table,
        "ASSEMBLED": weight.codes.device.type != "cpu",
    }  # fmt: skip
