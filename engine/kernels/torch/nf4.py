"""NF4 products that are row-independent, for machines without the compiled step and CUDA's kernels."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.kernels.formats.nf4 import GROUP, Nf4Weight, dequantise
from engine.kernels.torch.linear import make_unpacked

PART_ROWS = 1024
"""Outputs that a product widens at once."""


class Nf4Product:
    """Float32 products with the weights that the codes mean, as the compiled step has them too.

    Half a byte a weight is kept; ``PART_ROWS`` outputs at a time are widened in every call. Each part's
    product is one that was tried on this machine.
    """

    def __init__(self, weight: Nf4Weight) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        """``(rows, in)`` -> ``(rows, out)`` in the dtype of ``x``."""
        rows = x.float()
        parts = [make_unpacked(part)(rows) for part in self._parts()]
        return torch.cat(parts, dim=-1).to(x.dtype)

    def _parts(self) -> Iterator[Tensor]:
        """float32 (outputs, in). ``PART_ROWS`` whole rows are whole groups and bytes."""
        out, width = self.weight.shape
        for start in range(0, out, PART_ROWS):
            rows, first = min(PART_ROWS, out - start), start * width
            packed, absmax = self.weight.packed[first // 2 :], self.weight.absmax[first // GROUP :]
            yield dequantise(packed, absmax, rows * width, torch.float32).view(rows, width)


class Nf4Embedding:
    """Rows of a quantised table."""

    def __init__(self, weight: Nf4Weight, dtype: torch.dtype) -> None:
        self.weight, self.dtype = weight, dtype
        _, width = weight.shape
        # Rows of whole groups can be looked up; other widths occur in tests only.
        self.table = None if width % GROUP == 0 else _whole(weight).to(dtype)

    def __call__(self, ids: Tensor) -> Tensor:
        """``ids (rows,)`` -> ``(rows, hidden)`` in the dtype the model computes in."""
        if self.table is not None:
            return self.table[ids]
        out, width = self.weight.shape
        packed = self.weight.packed.view(out, width // 2)[ids].view(-1)
        absmax = self.weight.absmax.view(out, width // GROUP)[ids].view(-1)
        return dequantise(packed, absmax, len(ids) * width, self.dtype).view(-1, width)


def _whole(weight: Nf4Weight) -> Tensor:
    out, width = weight.shape
    return dequantise(weight.packed, weight.absmax, out * width).view(out, width)
