"""Matrix products for 1..16 rows whose bits do not depend on how many rows there are.

A plain ``F.linear`` picks another BLAS path for one row (gemv) than for several, and sums in another
order: a token's logits would then depend on whether it was verified alone or beside drafted ones,
and a greedy tie could break differently. Two ways around it, the first that holds on this machine:

``PackedLinear``
    oneDNN with the weight reordered once. Measured (docs/log.md): same bits for 1..256 rows in fp32
    and bf16, and faster than ``F.linear``, which reorders the weight in every call.
``BlockedLinear``
    ``F.linear`` on blocks of exactly 16 rows, the last one padded: one shape, hence one path.

``make_linear`` does not trust either: it checks the weight it is given.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 16
"""Rows of one block: the pending token and up to 15 drafted ones."""


class Linear(Protocol):
    """Maps ``x (rows, in)`` to ``(rows, out)``; each row's bits are independent of the others."""

    def __call__(self, x: Tensor) -> Tensor: ...


class BlockedLinear:
    """``x @ weight.T`` in blocks of 16 rows. The reference; works on any device."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight  # (out, in)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        blocks = F.pad(x, (0, 0, 0, -rows % ROWS)).split(ROWS)
        return torch.cat([F.linear(block, self.weight) for block in blocks])[:rows]


class PackedLinear:
    """``x @ weight.T`` through oneDNN, the weight reordered once for small row counts."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, None, "none", [], "")
        return result


class Biased:
    """Another product, and the same bias added to each row."""

    def __init__(self, linear: Linear, bias: Tensor) -> None:
        self.linear, self.bias = linear, bias  # bias: (out,)

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.bias


_row_independent: dict[tuple[int, int, torch.dtype], bool] = {}


def make_linear(weight: Tensor) -> Linear:
    """The fastest product for ``weight (out, in)`` that is row-independent on this machine."""
    return PackedLinear(weight) if _packs(weight) else BlockedLinear(weight)


def _packs(weight: Tensor) -> bool:
    """Whether oneDNN multiplies by such weights here, and row-independently; tried once a shape."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    key = (weight.shape[0], weight.shape[1], weight.dtype)
    if key not in _row_independent:
        try:
            packed = PackedLinear(weight)
            _row_independent[key] = is_row_independent(packed, weight.shape[1], weight.dtype)
        except RuntimeError:  # no bf16 kernel without AVX-512, as on most laptops
            _row_independent[key] = False
    return _row_independent[key]


def is_row_independent(linear: Linear, width: int, dtype: torch.dtype) -> bool:
    """Whether ``linear`` gives the same bits for 1..16 and 64 rows, and in every slot.

    ``width`` is the length of an input row. A few milliseconds for a small weight; asked once for
    each shape.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, width, generator=generator).to(dtype)
    reference = linear(x)
    return all(
        torch.equal(linear(x[:rows]), reference[:rows]) for rows in (*range(1, ROWS + 1), 40)
    ) and all(
        torch.equal(linear(x[slot : slot + 5]), reference[slot : slot + 5]) for slot in (1, 7)
    )
