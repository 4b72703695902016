"""Products of many rows at once, for prompts: cuBLAS, over a part of the weight widened at a time.

Arithmetic limits these, not memory, so a weight may be widened on the way. Sums are cuBLAS's: bits
follow from the number of rows, so what decodes and verifies never comes through here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda.availability import runs_kernels
from engine.kernels.cuda.linear.fusion import Fusion
from engine.kernels.cuda.linear.reference import finish, norm_factor, quantise_rows
from engine.kernels.formats import nf4
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import GROUP, Nf4Weight

PART = 4096
"""Outputs widened at once: some tens of megabytes. A multiple of what whole groups need."""
LEAST_INTEGER_ROWS = 17
"""What cuBLAS's int8 product takes at least; its sizes must be multiples of 8."""


class BulkLinear:
    """The product with a weight as it is kept; int8 has the bits of its kernel, the rest has not."""

    def __init__(self, weight: Tensor | Int8Weight | Nf4Weight, fusion: Fusion) -> None:
        self.weight, self.fusion = weight, fusion

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """``x (rows, in)`` to ``(rows, out)``, as ``FusedLinear``."""
        if isinstance(self.weight, Int8Weight):
            sums = _int8_sums(x, self.weight, self.fusion)
        else:
            sums = _float_sums(x, self.weight, self.fusion)
        return finish(sums, self.fusion, residual, x.dtype)


def _float_sums(x: Tensor, weight: Tensor | Nf4Weight, fusion: Fusion) -> Tensor:
    """(rows, out) float32, from rows and weights in bf16."""
    inputs = x.float()
    if fusion.norm is not None:
        inputs = inputs * norm_factor(x, fusion.norm) * fusion.norm.weight.float()
    inputs = inputs.bfloat16()
    outputs = weight.shape[0]
    sums = torch.empty(len(x), outputs, device=x.device)
    for start in range(0, outputs, PART):
        stop = min(start + PART, outputs)
        sums[:, start:stop] = F.linear(inputs, _widened(weight, start, stop))
    return sums


def _widened(weight: Tensor | Nf4Weight, start: int, stop: int) -> Tensor:
    """Outputs ``start`` to ``stop`` in bf16. ``PART`` whole rows are whole groups and bytes."""
    if isinstance(weight, Tensor):
        return weight[start:stop].bfloat16()
    width = weight.shape[1]
    packed, absmax = weight.packed[start * width // 2 :], weight.absmax[start * width // GROUP :]
    count = (stop - start) * width
    if not runs_kernels(packed.device) or count % 2:
        return nf4.dequantise(packed, absmax, count).view(-1, width)
    from engine.kernels.cuda.linear.nf4_widen import widened

    return widened(packed, absmax, count).view(-1, width)


def _int8_sums(x: Tensor, weight: Int8Weight, fusion: Fusion) -> Tensor:
    """(rows, out) float32: exact integer sums times the scales of outputs and rows."""
    values, scale = quantise_rows(x, fusion.norm)
    fits = len(x) >= LEAST_INTEGER_ROWS and not any(size % 8 for size in weight.values.shape)
    if fits:
        total = torch._int_mm(values, weight.values.t()).float()
    else:
        total = F.linear(values.double(), weight.values.double()).float()  # exact below 2**53
    return total * weight.scale * scale
