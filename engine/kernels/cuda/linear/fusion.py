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
_WHOLE_ROW = 16384
_FINISHED = 1024
"""Outputs that one program of ``finish_sums`` finishes."""


def row_depth(width: int) -> int:
    """Return how many inputs of a row a program holds at once: all, up to what registers take."""
    return min(1 << (width - 1).bit_length(), _WHOLE_ROW)


class FusedLinear(Protocol):
    """A linear layer from ``x (rows, in)`` to ``(rows, out)`` in the dtype of ``x``; adds ``residual``.

    A row's bits depend neither on the other rows nor on its index.
    """

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor: ...


class StackedLinear(Protocol):
    """A ``FusedLinear`` that may have the weights of several experts: ``experts (rows,)`` int32."""

    def __call__(
        self, x: Tensor, residual: Tensor | None = None, experts: Tensor | None = None
    ) -> Tensor: ...


def finish_sums(
    sums: Tensor, fusion: Fusion, residual: Tensor | None, dtype: torch.dtype,
    scales: Tensor | None = None, weight_scales: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``sums (rows, out)`` with scales, bias, gate and residual, rounded once to ``dtype``."""
    from engine.kernels.cuda.linear.bulk_kernel import finish_rows

    bias, gated = fusion.bias, fusion.gated
    if scales is None and bias is None and residual is None and not gated:
        return sums.to(dtype)
    rows, outputs = len(sums), sums.shape[1] // 2 if gated else sums.shape[1]
    result = torch.empty(rows, outputs, dtype=dtype, device=sums.device)
    finish_rows[(rows, -(-outputs // _FINISHED))](
        sums, scales, weight_scales, bias, None if residual is None else residual.contiguous(),
        result, outputs, GATED=gated, COLUMNS=_FINISHED, enable_fp_fusion=False,
    )  # fmt: skip
    return result


def normalise(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    """Return the RMSNorm of ``x (rows, width)`` plus ``residual``, rounded once to the dtype of ``x``.

    ``residual`` has the shape of ``x``. One program computes a row, so its bits do not depend on the
    other rows; torch splits its reductions by their number.
    """
    from engine.kernels.cuda.linear.parts import normalise_rows

    x = x.contiguous()
    result = torch.empty_like(x)
    normalise_rows[(len(x),)](
        x, norm.weight, None if residual is None else residual.contiguous(), result,
        x.shape[1], norm.epsilon, DEPTH=row_depth(x.shape[1]),
        num_warps=8, enable_fp_fusion=False,
    )  # fmt: skip
    return result
