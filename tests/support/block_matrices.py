"""Random matrices in GGUF's formats, and the rows that they are multiplied by."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.blocks import Blocks

_HALVES = {
    "q4_1": (0, 2), "q5_1": (0, 2), "q2_k": (80, 82), "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2),
    "q6_k": (208,), "tq1_0": (52,), "tq2_0": (64,), "nvfp4": (),
}  # fmt: skip
"""Where a block has its scales of 16 bits; the first bytes of all others."""


def random_blocks(format: str, outputs: int, inputs: int, seed: int = 0) -> Blocks:
    """Any codes, under scales of a size that trained weights have."""
    layout, generator = LAYOUTS[format], torch.Generator().manual_seed(seed)
    count = outputs * inputs // layout.inputs
    data = torch.randint(256, (count, layout.size), dtype=torch.uint8, generator=generator)
    if format == "mxfp4":
        data[:, 0] = torch.randint(110, 125, (count,), generator=generator)
    elif format == "iq1_m":
        data[:, 49::2] &= 0x0F  # a scale in four pieces
        data[:, 55] |= (
            torch.randint(2, (count,), generator=generator, dtype=torch.uint8) * 0x80 + 0x10
        )
    else:
        for at in _HALVES.get(format, (0,)):
            scales = torch.randn(count, 1, generator=generator) * 0.01
            data[:, at : at + 2] = scales.half().view(torch.uint8)
    return Blocks(format, (outputs, inputs), data.view(outputs, -1))


def rounded_rows(x: Tensor, format: str) -> Tensor:
    """``x (rows, inputs)`` float32 as products with blocks of a format see it: float64.

    Each 32 or 256 numbers of a row are rounded to 127 steps on each side of zero.
    """
    block = 256 if LAYOUTS[format].inputs == 256 else 32
    blocks = x.view(len(x), -1, block)
    peak = blocks.abs().amax(-1, keepdim=True)
    inverse = torch.where(peak > 1e-30, 127 / peak, torch.zeros(()))
    return ((blocks * inverse).round().double() * (peak / 127).double()).view_as(x)
