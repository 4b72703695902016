"""Row-independent products with a GGUF file's blocks, where the CUDA kernels failed their trial."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.kernels.formats.block_planes import BlockPlanes, to_planes
from engine.kernels.formats.blocks import Blocks, Stacked
from engine.kernels.torch.linear import make_unpacked

_SLICE_OUTPUTS = 1024
"""Outputs whose weights are dequantised at once."""


class BlockLinear:
    """Multiplies in float32 by the weights that the kernels multiply by, dequantised slice by slice."""

    def __init__(self, weight: Stacked, device: torch.device) -> None:
        parts = weight if isinstance(weight, tuple) else (weight,)
        self.parts = [
            to_planes(part, device) if isinstance(part, Blocks) else part.to(device)
            for part in parts
        ]

    def __call__(self, x: Tensor) -> Tensor:
        """Map ``(rows, in)`` to ``(rows, out)`` in the dtype of ``x``."""
        rows = x.float()
        parts = [make_unpacked(part)(rows) for part in self._slices()]
        return torch.cat(parts, dim=-1).to(x.dtype)

    def _slices(self) -> Iterator[Tensor]:
        """Yield float32 (outputs, in)."""
        for part in self.parts:
            for start in range(0, part.shape[0], _SLICE_OUTPUTS):
                some = slice(start, start + _SLICE_OUTPUTS)
                own = part.dequantise(some) if isinstance(part, BlockPlanes) else part[some]
                yield own.float()
