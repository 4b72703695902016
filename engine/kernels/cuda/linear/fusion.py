"""What is fused with a product: done before and after it in the same launch. Fixed for one weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Norm:
    """RMSNorm (Zhang and Sennrich 2019) by ``weight (in,)`` of any float dtype."""

    weight: Tensor
    epsilon: float


@dataclass(frozen=True, slots=True)
class Fusion:
    """``norm`` is applied to the rows, ``bias (out,)`` added to the product.

    ``gated``: the weight holds a gate's outputs and as many others, the gate's first (SwiGLU, Shazeer
    2020); silu(gate) * other is the result, half as wide.
    """

    norm: Norm | None = None
    bias: Tensor | None = None
    gated: bool = False


PLAIN = Fusion()


class Product(Protocol):
    """Maps ``x (rows, in)`` to ``(rows, out)`` in the dtype of ``x``, and adds ``residual`` to it.

    A row's bits depend neither on the rows beside it nor on its slot.
    """

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor: ...
