"""Decode NF4's bytes for ``blocks``: each has the codes of two inputs, the first in its high half.

Codes times scales are rounded to bf16 in registers, as bitsandbytes' ``dequantize_4bit`` rounds them.
High and low halves are two products, so that decoded weights need no shuffle.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.formats import nf4

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


TABLE = tl.constexpr(tuple(nf4.CODE.bfloat16().tolist()))


@triton.jit
def decode_table(packed: tl.tensor, scale: tl.tensor, ASSEMBLED: tl.constexpr) -> tl.tensor:
    """Return the bf16 weights of the high and of the low halves of ``packed`` uint8, both of its shape.

    ``scale`` bf16 has its shape too, and one value for every four neighbours. The interpreter has no
    assembler (not ``ASSEMBLED``), so it compares with every code.
    """
    if ASSEMBLED:
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
        high, low = tl.zeros_like(factor), tl.zeros_like(factor)
        for code in tl.static_range(16):
            high = tl.where(wide >> 4 == code, TABLE[code], high)
            low = tl.where(wide & 15 == code, TABLE[code], low)
        return (high * factor).to(tl.bfloat16), (low * factor).to(tl.bfloat16)
