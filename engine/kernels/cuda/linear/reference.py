"""The linear layers in torch: the kernels' reference, and their stand-in where they cannot run.

Sums are float32 (int8: integers) over inputs and weights rounded as the kernels round them. Everything
after the sum stays in float32 until the result is rounded, once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, Norm
from engine.kernels.formats import int8
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import GROUP, Nf4Weight, code_on, unpack
from engine.kernels.torch.linear import make_unpacked

LEVELS = int8.ACTIVATION_LEVELS[0]


class FloatReference:
    """For weights ``(out, in)`` in bf16, or NF4: bf16 inputs and codes, scales in float32.

    Weights in fp32 or fp16 have no kernel: neither they nor the rows are rounded to bf16. A norm's
    factor is one number a row, so it multiplies the sum. The inputs are then rounded to bf16 before
    they are normalised, which loses no more than rounding after it.
    """

    def __init__(self, weight: Tensor | Nf4Weight, fusion: Fusion = PLAIN) -> None:
        if isinstance(weight, Nf4Weight):
            self.rounds, floats = True, dequantise_rounded(weight)
        else:
            self.rounds, floats = weight.dtype == torch.bfloat16, weight.float()
        self.multiply, self.fusion = make_unpacked(floats), fusion

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        norm = self.fusion.norm
        inputs = x.float() if norm is None else x.float() * norm.weight.float()
        sums = self.multiply(inputs.bfloat16().float() if self.rounds else inputs)
        if norm is not None:
            sums = sums * norm_factor(x, norm)
        return finish(sums, self.fusion, residual, x.dtype)


class Int8Reference:
    """For int8 weights: rows are quantised by their own largest value, sums are exact.

    Without a norm it gives the bits of ``engine.kernels.torch.int8.Int8Reference``.
    """

    def __init__(self, weight: Int8Weight, fusion: Fusion = PLAIN) -> None:
        self.weight, self.fusion = weight, fusion

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        values, scale = quantise_rows(x, self.fusion.norm)
        total = F.linear(values.double(), self.weight.values.double()).float()  # exact below 2**53
        return finish(total * self.weight.scale * scale, self.fusion, residual, x.dtype)


def quantise_rows(x: Tensor, norm: Norm | None = None) -> tuple[Tensor, Tensor]:
    """Return ``x (rows, in)`` as int8 up to +-``LEVELS``, and each row's scale ``(rows, 1)`` float32.

    The scale of a row that is not finite is NaN, and so is its result. A norm's factor is part of the
    scale: it does not change the quantised values.
    """
    inputs = x.float() if norm is None else x.float() * norm.weight.float()
    quantised, scale = int8.quantise_rows(inputs, LEVELS)
    values = (quantised.short() - (LEVELS + 1)).to(torch.int8)
    bad = ~scale.isfinite()
    values, scale = values.masked_fill(bad, 0), scale.masked_fill(bad, float("nan"))
    return values, scale if norm is None else scale * norm_factor(x, norm)


def dequantise_rounded(weight: Nf4Weight) -> Tensor:
    """Return the weights that the kernels multiply by: bf16 codes times scales, float32 ``(out, in)``."""
    out, width = weight.shape
    codes = code_on(weight.packed.device).bfloat16().float()
    values = codes[unpack(weight.packed).int()][: out * width]
    scales = weight.absmax.float().repeat_interleave(GROUP)[: out * width]
    return (values * scales).view(out, width)


def norm_factor(x: Tensor, norm: Norm) -> Tensor:
    """Return 1 / sqrt(mean square + epsilon) of each row: ``(rows, 1)`` float32."""
    return torch.rsqrt(x.float().square().mean(-1, keepdim=True) + norm.epsilon)


def finish(sums: Tensor, fusion: Fusion, residual: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Apply bias, gate and residual to float32 ``sums (rows, out)``; round once, to ``dtype``."""
    if fusion.bias is not None:
        sums = sums + fusion.bias.float()
    if fusion.gated:
        gate, other = sums.chunk(2, dim=-1)
        sums = F.silu(gate) * other
    if residual is not None:
        sums = sums + residual.float()
    return sums.to(dtype)
