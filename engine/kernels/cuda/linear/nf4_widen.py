"""NF4 weights in bf16, for products of many rows: half a byte read and two written for each.

What it writes is ``reference.rounded`` has, rounded to bf16.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.linear.nf4 import GROUP, decoded
from engine.kernels.formats.nf4 import code_on

BYTES = 2048
"""Of one program: eight a thread."""


@triton.jit
def widen_kernel(
    packed: tl.tensor, absmax: tl.tensor, codes: tl.tensor, result: tl.tensor, count: tl.tensor,
    BYTES: tl.constexpr,
) -> None:  # fmt: skip
    """``count`` bytes of ``packed`` to twice as many bf16, in order; ``absmax`` of any float dtype."""
    first = tl.program_id(0).to(tl.int64) * BYTES
    place = first + tl.arange(0, BYTES)
    there = place < count
    high, low = decoded(tl.load(packed + place, mask=there, other=0), codes)
    scale = tl.load(absmax + place // (GROUP // 2), mask=there, other=0.0).to(tl.float32)
    pairs = tl.join(high.to(tl.float32) * scale, low.to(tl.float32) * scale)
    values = tl.reshape(pairs, (2 * BYTES,)).to(tl.bfloat16)
    at = 2 * first + tl.arange(0, 2 * BYTES)
    tl.store(result + at, values, mask=at < 2 * count)


def widened(packed: Tensor, absmax: Tensor, count: int) -> Tensor:
    """The first ``count`` weights, an even number, in bf16, flat; on their device."""
    result = torch.empty(count, dtype=torch.bfloat16, device=packed.device)
    # The interpreter, whose memory is the CPU's, has no assembler and looks the codes up.
    codes = code_on(packed.device).bfloat16() if packed.device.type == "cpu" else None
    widen_kernel[(triton.cdiv(count // 2, BYTES),)](
        packed, absmax, codes, result, count // 2,
        BYTES=BYTES, num_warps=8, enable_fp_fusion=False,
    )  # fmt: skip
    return result
