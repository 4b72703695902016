"""What a linear layer does before its product, and after it in the same launch; and the norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Norm:
    """RMSNorm (Zhang and Sennrich 2019) by ``weight (in,)`` of any float dtype."""

    weight: Tensor
    epsilon: float


@dataclass(frozen=True, slots=True)
class Fusion:
    """Apply ``norm`` to the rows before the product, and add ``bias (out,)`` after it.

    ``gated``: the weight holds the gate's outputs, then as many others (SwiGLU, Shazeer 2020); the
    result is silu(gate) * other, half as wide.
    """

    norm: Norm | None = None
    bias: Tensor | None = None
    gated: bool = False


PLAIN = Fusion()
WHOLE_ROW = 16384
"""Inputs of a row that one program holds at once; a longer row takes several steps."""


class FusedLinear(Protocol):
    """A linear layer from ``x (rows, in)`` to ``(rows, out)`` in the dtype of ``x``; adds ``residual``.

    A row's bits depend neither on the other rows nor on its index.
    """

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor: ...


def normalise(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    """Return the RMSNorm of ``x (rows, width)`` plus ``residual``, rounded once to the dtype of ``x``.

    ``residual`` has the shape of ``x``. One program computes a row, so its bits do not depend on the
    other rows; torch splits its reductions by their number.
    """
    import triton

    from engine.kernels.cuda.linear.parts import normalise_rows

    x = x.contiguous()
    result = torch.empty_like(x)
    normalise_rows[(len(x),)](
        x, norm.weight, None if residual is None else residual.contiguous(), result,
        x.shape[1], norm.epsilon, DEPTH=min(triton.next_power_of_2(x.shape[1]), WHOLE_ROW),
        num_warps=8, enable_fp_fusion=False,
    )  # fmt: skip
    return result
