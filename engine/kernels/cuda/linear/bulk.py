"""Linear layers of many rows, for prompts: cuBLAS, over a part of the weight dequantised at a time.

Arithmetic limits these, not memory, so dequantising to bf16 costs little. The order of cuBLAS's sums
depends on the number of rows, so decoding and verification never use this.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.linear.fusion import FusedLinear, Fusion
from engine.kernels.cuda.linear.reference import finish, norm_factor, quantise_rows
from engine.kernels.formats import nf4
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import GROUP, Nf4Weight

PART = 4096
"""Outputs dequantised at once: some tens of megabytes. That many rows are whole groups and bytes."""
LEAST_INTEGER_ROWS = 17
"""Least rows of cuBLAS's int8 product; its other sizes must be multiples of 8."""


class BulkLinear:
    """A linear layer for any number of rows: ``streamed`` up to ``STREAMED_ROWS``, and cuBLAS beyond.

    Of many rows, only int8 gives the bits of ``streamed``.
    """

    def __init__(
        self, streamed: FusedLinear, weight: Tensor | Int8Weight | Nf4Weight, fusion: Fusion
    ) -> None:
        self.streamed, self.weight, self.fusion = streamed, weight, fusion

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if len(x) <= STREAMED_ROWS:
            return self.streamed(x, residual)
        if isinstance(self.weight, Int8Weight):
            sums = _int8_sums(x, self.weight, self.fusion)
        else:
            sums = _float_sums(x, self.weight, self.fusion)
        return finish(sums, self.fusion, residual, x.dtype)


def _float_sums(x: Tensor, weight: Tensor | Nf4Weight, fusion: Fusion) -> Tensor:
    """Multiply rows and weights in bf16; return (rows, out) float32."""
    inputs = x.float()
    if fusion.norm is not None:
        inputs = inputs * norm_factor(x, fusion.norm) * fusion.norm.weight.float()
    inputs = inputs.bfloat16()
    outputs = weight.shape[0]
    sums = torch.empty(len(x), outputs, device=x.device)
    for start in range(0, outputs, PART):
        stop = min(start + PART, outputs)
        sums[:, start:stop] = F.linear(inputs, _bf16_rows(weight, start, stop))
    return sums


def _bf16_rows(weight: Tensor | Nf4Weight, start: int, stop: int) -> Tensor:
    """Return outputs ``start`` to ``stop`` in bf16; ``start`` is a multiple of ``PART``."""
    if isinstance(weight, Tensor):
        return weight[start:stop].bfloat16()
    width = weight.shape[1]
    packed, absmax = weight.packed[start * width // 2 :], weight.absmax[start * width // GROUP :]
    count = (stop - start) * width
    if count % 2:
        return nf4.dequantise(packed, absmax, count).view(-1, width)
    from engine.kernels.cuda.linear.nf4 import dequantise

    return dequantise(packed, absmax, count).view(-1, width)


def _int8_sums(x: Tensor, weight: Int8Weight, fusion: Fusion) -> Tensor:
    """Multiply exact integer sums by the scales of outputs and rows; return (rows, out) float32."""
    values, scale = quantise_rows(x, fusion.norm)
    fits = len(x) >= LEAST_INTEGER_ROWS and not any(size % 8 for size in weight.values.shape)
    if fits:
        total = torch._int_mm(values, weight.values.t()).float()
    else:
        total = F.linear(values.double(), weight.values.double()).float()  # exact below 2**53
    return total * weight.scale * scale
