"""Row-independent NF4 linear layers, for machines without the compiled step and CUDA kernels."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.kernels.formats.nf4 import GROUP, Nf4Weight, dequantise
from engine.kernels.torch.linear import SLICE_OUTPUTS, SlicedLinear


class Nf4Linear(SlicedLinear):
    """Multiplies by the dequantised weights, which are those of the compiled step."""

    def __init__(self, weight: Nf4Weight) -> None:
        self.weight = weight

    def slices(self) -> Iterator[Tensor]:
        """Yield float32 (outputs, in). A full slice is whole groups and bytes for any ``in``."""
        out, width = self.weight.shape
        for start in range(0, out, SLICE_OUTPUTS):
            rows, first = min(SLICE_OUTPUTS, out - start), start * width
            packed, absmax = self.weight.packed[first // 2 :], self.weight.absmax[first // GROUP :]
            yield dequantise(packed, absmax, rows * width, torch.float32).view(rows, width)


class Nf4Embedding:
    """Rows of a quantised table."""

    def __init__(self, weight: Nf4Weight, dtype: torch.dtype) -> None:
        self.weight, self.dtype = weight, dtype
        out, width = weight.shape
        self.table = None
        if width % GROUP:  # a row is no whole groups: only in tests
            whole = dequantise(weight.packed, weight.absmax, out * width)
            self.table = whole.view(out, width).to(dtype)

    def __call__(self, ids: Tensor) -> Tensor:
        """Map ``ids (rows,)`` to ``(rows, hidden)`` in the dtype the model computes in."""
        if self.table is not None:
            return self.table[ids]
        out, width = self.weight.shape
        packed = self.weight.packed.view(out, width // 2)[ids].view(-1)
        absmax = self.weight.absmax.view(out, width // GROUP)[ids].view(-1)
        return dequantise(packed, absmax, len(ids) * width, self.dtype).view(-1, width)
