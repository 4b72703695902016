"""Linear layers in torch, for trials on a GPU and tests.

Sums are float32 (int8: integers) over inputs and weights rounded as the kernels round them. Everything
after the sum stays in float32 until the result is rounded, once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, Norm
from engine.kernels.formats.block_planes import BlockPlanes
from engine.kernels.torch.linear import Linear, make_unpacked


class FloatReference:
    """For weights ``(out, in)`` in bf16 or dequantised to it; inputs are rounded to it too."""

    def __init__(
        self,
        weight: Tensor | BlockPlanes,
        fusion: Fusion = PLAIN,
        make: Callable[[Tensor], Linear] = make_unpacked,
    ) -> None:
        """``make``: makes the product with float32 weights; by default one that is row-independent."""
        self.multiply, self.fusion = make(dequantise_rounded(weight)), fusion

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        norm, inputs = self.fusion.norm, x.float()
        if norm is not None:
            inputs = (inputs * norm_factor(x, norm) * norm.weight.float()).to(x.dtype)
        sums = self.multiply(inputs.bfloat16().float())
        return finish(sums, self.fusion, residual, x.dtype)


def dequantise_rounded(weight: Tensor | BlockPlanes) -> Tensor:
    """Return the weights that the kernels multiply by, rounded to bf16, as float32 ``(out, in)``."""
    if isinstance(weight, Tensor):
        return weight.float()
    return weight.dequantise().float()


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
