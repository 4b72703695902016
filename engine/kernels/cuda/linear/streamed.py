"""Launch the linear kernels. Each layer has its weight, its tile and its counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.linear.blocks import block_gemm, constants_of, planes_of
from engine.kernels.cuda.linear.float_weights import bf16_gemm
from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, normalise, row_depth
from engine.kernels.cuda.linear.int8 import int8_gemm, int8_rows
from engine.kernels.cuda.linear.tiles import MULTIPROCESSORS, ROWS, Kind, Tile, choose_tile
from engine.kernels.formats.block_planes import BlockPlanes
from engine.kernels.formats.int8 import Int8Weight
from engine.values import MAX_ROWS

ALIGNMENT = 16
"""Bytes. Triton specialises kernels on this alignment of a pointer."""
OPTIONS = {"enable_fp_fusion": False}
"""Multiply and add round separately, as in the reference, unless a kernel calls ``fma``."""


def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors the device has."""
    if device.type != "cuda":
        return MULTIPROCESSORS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


class _StreamedLinear(ABC):
    """A linear layer of at most ``STREAMED_ROWS`` rows. Allocates the result and launches the kernel.

    Counters find the last program of a tile, which adds up the splits. They are zero between launches,
    because that program resets its own; so one layer must not run on two streams at once.
    """

    def __init__(
        self, kind: Kind, shape: tuple[int, ...], fusion: Fusion, tile: Tile | None,
        device: torch.device, chosen: int = 0,
    ) -> None:  # fmt: skip
        """``chosen``: how many experts a token chooses, of weights and biases that are stacked; 0: the
        weight is one for all rows."""
        self.outputs, self.width = shape[-2:]
        if tile is None:  # the experts of one token run side by side
            outputs = self.outputs * max(chosen, 1)
            tile = choose_tile(outputs, self.width, kind, multiprocessors(device))
        self.fusion, self.tile = fusion, tile
        self.most = MAX_ROWS * chosen or STREAMED_ROWS
        self.tiles = -(-self.outputs // self.tile.columns)
        count = self.tiles * (self.most if chosen else self.most // ROWS)
        count *= self.tile.splits > 1
        self.counters = torch.zeros(count, dtype=torch.int32, device=device)

    def __call__(
        self, x: Tensor, residual: Tensor | None = None, experts: Tensor | None = None
    ) -> Tensor:
        """See ``FusedLinear``. ``experts (rows,)`` int32: which of the stacked weights each row has."""
        assert len(x) <= self.most
        x = x.contiguous()
        if x.data_ptr() % ALIGNMENT:  # Triton would compile other loads, and a norm other sums
            x = x.clone()
        out = self.outputs // 2 if self.fusion.gated else self.outputs
        result = torch.empty(x.shape[0], out, dtype=x.dtype, device=x.device)
        if residual is not None:
            residual = residual.contiguous()
        kernel, operands, sums = self.operands(x)
        tiles = -(-len(x) // ROWS) if experts is None else len(x)
        kernel[(tiles, self.tile.splits, self.tiles)](
            *operands, self.fusion.bias, residual, result, self.partial_sums(len(x), sums),
            self.counters, experts, len(x), self.outputs, self.width, self.tile.span,
            **self.constants(),
        )  # fmt: skip
        return result

    @abstractmethod
    def operands(self, x: Tensor) -> tuple[Any, tuple[Tensor | None, ...], torch.dtype]:
        """Return the kernel, what it multiplies for rows ``x``, and the dtype of its sums."""

    def normed(self, x: Tensor) -> Tensor:
        """Return the rows in bf16, after the norm."""
        return (x if self.fusion.norm is None else normalise(x, self.fusion.norm)).bfloat16()

    def partial_sums(self, rows: int, dtype: torch.dtype) -> Tensor:
        """Return memory (splits, rows, outputs), or none where one program sees all inputs."""
        shape = (self.tile.splits, rows, self.outputs) if self.tile.splits > 1 else (0,)
        return torch.empty(shape, dtype=dtype, device=self.counters.device)

    def constants(self) -> dict[str, Any]:
        """Return the kernels' compile-time arguments."""
        tile = self.tile
        return {
            "COLUMNS": tile.columns, "DEPTH": tile.depth, "SPLITS": tile.splits,
            "GATED": self.fusion.gated, "num_warps": tile.warps, "num_stages": tile.stages,
            **OPTIONS,
        }  # fmt: skip


class Bf16Linear(_StreamedLinear):
    """A layer with ``weight (out, in)`` bf16; (experts, out, in) if they are stacked."""

    def __init__(
        self, weight: Tensor, fusion: Fusion = PLAIN, tile: Tile | None = None, chosen: int = 0
    ) -> None:
        assert weight.dtype == torch.bfloat16
        super().__init__("bf16", weight.shape, fusion, tile, weight.device, chosen)
        self.weight = weight.contiguous()

    def operands(self, x: Tensor) -> tuple[Any, tuple[Tensor | None, ...], torch.dtype]:
        return bf16_gemm, (self.normed(x), self.weight), torch.float32


class Int8Linear(_StreamedLinear):
    """A layer with an ``Int8Weight``; a small kernel quantises the rows first."""

    def __init__(
        self, weight: Int8Weight, fusion: Fusion = PLAIN, tile: Tile | None = None, chosen: int = 0
    ) -> None:
        shape, device = weight.values.shape, weight.values.device
        super().__init__("int8", shape, fusion, tile, device, chosen)
        self.weight = weight

    def operands(self, x: Tensor) -> tuple[Any, tuple[Tensor | None, ...], torch.dtype]:
        rows = quantise_rows(x, self.fusion)
        return int8_gemm, (*rows, self.weight.values, self.weight.scale), torch.int32


class BlockLinear(_StreamedLinear):
    """A layer with a GGUF file's blocks, or NF4, in planes."""

    def __init__(
        self, weight: BlockPlanes, fusion: Fusion = PLAIN, tile: Tile | None = None, chosen: int = 0
    ) -> None:
        kind: Kind = "nf4" if weight.form.table else KINDS[weight.form.bits]
        device = weight.codes.device
        super().__init__(kind, weight.shape, fusion, tile, device, chosen)
        self.weight = weight

    def operands(self, x: Tensor) -> tuple[Any, tuple[Tensor | None, ...], torch.dtype]:
        return block_gemm, (self.normed(x), *planes_of(self.weight)), torch.float32

    def constants(self) -> dict[str, Any]:
        made = {**super().constants(), **constants_of(self.weight)}
        # All that there are: left alone, the assembler sometimes spills a few bytes to take only 168.
        return {**made, "maxnreg": 255} if self.weight.form.table else made


KINDS: dict[int, Kind] = {4: "blocks4", 5: "blocks5", 6: "blocks6", 8: "blocks8"}
"""By the bits of a code."""


def quantise_rows(x: Tensor, fusion: Fusion = PLAIN) -> tuple[Tensor, Tensor]:
    """Return ``x (rows, in)`` as int8 and its scales ``(rows,)``, as the CPU does."""
    values = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scales = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    norm = fusion.norm
    int8_rows[(x.shape[0],)](
        x, norm and norm.weight, values, scales, x.shape[1], norm.epsilon if norm else 0.0,
        DEPTH=row_depth(x.shape[1]), num_warps=16, **OPTIONS,
    )  # fmt: skip
    return values, scales
