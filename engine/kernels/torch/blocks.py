"""Row-independent products with a GGUF file's blocks, where the CUDA kernels failed their trial."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.kernels.formats.block_planes import BlockPlanes, to_planes
from engine.kernels.formats.blocks import Blocks, Stacked
from engine.kernels.torch.linear import SLICE_OUTPUTS, SlicedLinear


class BlockLinear(SlicedLinear):
    """Multiplies by the weights that the kernels multiply by."""

    def __init__(self, weight: Stacked, device: torch.device) -> None:
        parts = weight if isinstance(weight, tuple) else (weight,)
        self.parts = [
            to_planes(part, device) if isinstance(part, Blocks) else part.to(device)
            for part in parts
        ]

    def slices(self) -> Iterator[Tensor]:
        """Yield float32 (outputs, in)."""
        for part in self.parts:
            for start in range(0, part.shape[0], SLICE_OUTPUTS):
                some = slice(start, start + SLICE_OUTPUTS)
                own = part.dequantise(some) if isinstance(part, BlockPlanes) else part[some]
                yield own.float()
