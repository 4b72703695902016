"""Launch the linear kernels. Each layer has its weight, its tile and its counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.linear.float_weights import bf16_gemm
from engine.kernels.cuda.linear.fusion import PLAIN, Fusion
from engine.kernels.cuda.linear.int8 import int8_gemm, int8_rows
from engine.kernels.cuda.linear.nf4 import nf4_gemm
from engine.kernels.cuda.linear.tiles import ROWS, Tile, choose_tile
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import CODE, GROUP, Nf4Weight

ALIGNMENT = 16
"""Bytes. Triton specialises kernels on this alignment of a pointer."""
OPTIONS = {"enable_fp_fusion": False}
"""Multiply and add round separately, as in the reference, unless a kernel calls ``fma``."""
REGISTERS = {4: 168, 8: 128}
"""Registers per thread, by warps: room for three programs of 4 warps, or two of 8.

Without this limit the assembler spills a few bytes to use only 64 (bf16, 9.0).
"""


class Scratch:
    """Memory for partial sums, and the counters that find the last program of a tile.

    Counters are zero between launches: the last program resets its own. So one layer must not run on
    two streams at once.
    """

    def __init__(self, outputs: int, tile: Tile, dtype: torch.dtype, device: torch.device) -> None:
        self.outputs, self.tile, self.dtype = outputs, tile, dtype
        self.tiles = -(-outputs // tile.columns)
        count = self.tiles * (STREAMED_ROWS // ROWS) if tile.splits > 1 else 0
        self.counters = torch.zeros(count, dtype=torch.int32, device=device)

    def grid(self, rows: int) -> tuple[int, int, int]:
        return -(-rows // ROWS), self.tile.splits, self.tiles

    def sums(self, rows: int) -> Tensor:
        """Return memory (splits, rows, outputs), or none where one program sees all inputs."""
        shape = (self.tile.splits, rows, self.outputs) if self.tile.splits > 1 else (0,)
        return torch.empty(shape, dtype=self.dtype, device=self.counters.device)

    def squares(self, rows: int) -> Tensor:
        """Return memory (tiles, splits, rows), or none where one program sees all inputs."""
        shape = (self.tiles, self.tile.splits, rows) if self.tile.splits > 1 else (0,)
        return torch.empty(shape, dtype=torch.float32, device=self.counters.device)

    def constants(self, gated: bool) -> dict[str, Any]:
        """Return the kernels' compile-time arguments."""
        tile = self.tile
        return {
            "COLUMNS": tile.columns, "DEPTH": tile.depth, "SPLITS": tile.splits, "GATED": gated,
            "num_warps": tile.warps, "num_stages": tile.stages,
            "maxnreg": REGISTERS[tile.warps], **OPTIONS,
        }  # fmt: skip


class _Launched(ABC):
    """A linear layer of at most ``STREAMED_ROWS`` rows. Allocates the result and launches the kernel."""

    fusion: Fusion
    outputs: int

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        assert len(x) <= STREAMED_ROWS
        x = x.contiguous()
        if x.data_ptr() % ALIGNMENT:  # Triton would compile other loads, and a norm other sums
            x = x.clone()
        out = self.outputs // 2 if self.fusion.gated else self.outputs
        result = torch.empty(x.shape[0], out, dtype=x.dtype, device=x.device)
        if residual is not None:
            residual = residual.contiguous()
        self.launch(x, residual, result)
        return result

    @abstractmethod
    def launch(self, x: Tensor, residual: Tensor | None, result: Tensor) -> None:
        """Write ``result (rows, out)``."""


class Bf16Linear(_Launched):
    """A layer with ``weight (out, in)`` bf16."""

    def __init__(self, weight: Tensor, fusion: Fusion = PLAIN, tile: Tile | None = None) -> None:
        self.outputs, self.width = weight.shape
        self.weight, self.fusion = weight.contiguous(), fusion
        tile = tile or choose_tile(self.outputs, self.width, "bf16")
        self.scratch = Scratch(self.outputs, tile, torch.float32, weight.device)

    def launch(self, x: Tensor, residual: Tensor | None, result: Tensor) -> None:
        fusion, rows = self.fusion, x.shape[0]
        norm = fusion.norm
        bf16_gemm[self.scratch.grid(rows)](
            x, self.weight, norm and norm.weight, fusion.bias, residual, result,
            self.scratch.sums(rows), self.scratch.squares(rows), self.scratch.counters,
            rows, self.outputs, self.width, self.scratch.tile.span, norm.epsilon if norm else 0.0,
            **self.scratch.constants(fusion.gated),
        )  # fmt: skip


class Int8Linear(_Launched):
    """A layer with an ``Int8Weight``; a small kernel quantises the rows first."""

    def __init__(
        self, weight: Int8Weight, fusion: Fusion = PLAIN, tile: Tile | None = None
    ) -> None:
        self.outputs, self.width = weight.values.shape
        self.weight, self.fusion = weight, fusion
        tile = tile or choose_tile(self.outputs, self.width, "int8")
        self.scratch = Scratch(self.outputs, tile, torch.int32, weight.values.device)

    def launch(self, x: Tensor, residual: Tensor | None, result: Tensor) -> None:
        rows = x.shape[0]
        values, scales = quantise_rows(x, self.fusion)
        int8_gemm[self.scratch.grid(rows)](
            values, scales, self.weight.values, self.weight.scale, self.fusion.bias, residual,
            result, self.scratch.sums(rows), self.scratch.counters,
            rows, self.outputs, self.width, self.scratch.tile.span,
            **self.scratch.constants(self.fusion.gated),
        )  # fmt: skip


class Nf4Linear(_Launched):
    """A layer with an ``Nf4Weight`` (bitsandbytes' layout) whose rows are whole groups; scales are reordered."""

    def __init__(self, weight: Nf4Weight, fusion: Fusion = PLAIN, tile: Tile | None = None) -> None:
        self.outputs, self.width = weight.shape
        assert self.width % GROUP == 0
        self.packed, self.fusion = weight.packed, fusion
        scales = weight.absmax.view(self.outputs, self.width // GROUP).t()
        if fusion.gated:  # the order of ``parts.own_columns``
            scales = scales.unflatten(1, (2, -1)).transpose(1, 2).flatten(1)
        self.scales = scales.contiguous()  # (in / 64, out): neighbours are read together
        # The interpreter has no inline assembly, so it looks the codes up.
        self.codes = CODE.bfloat16() if self.packed.device.type == "cpu" else None
        tile = tile or choose_tile(self.outputs, self.width, "nf4")
        self.scratch = Scratch(self.outputs, tile, torch.float32, self.packed.device)

    def launch(self, x: Tensor, residual: Tensor | None, result: Tensor) -> None:
        fusion, rows = self.fusion, x.shape[0]
        norm = fusion.norm
        nf4_gemm[self.scratch.grid(rows)](
            x, self.packed, self.scales, self.codes, norm and norm.weight, fusion.bias, residual,
            result, self.scratch.sums(rows), self.scratch.squares(rows), self.scratch.counters,
            rows, self.outputs, self.width, self.scratch.tile.span, norm.epsilon if norm else 0.0,
            **self.scratch.constants(fusion.gated),
        )  # fmt: skip


def quantise_rows(x: Tensor, fusion: Fusion = PLAIN) -> tuple[Tensor, Tensor]:
    """Return ``x (rows, in)`` as int8 and its scales ``(rows,)``, as ``reference.quantise_rows``."""
    values = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scales = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    norm = fusion.norm
    int8_rows[(x.shape[0],)](
        x, norm and norm.weight, values, scales, x.shape[1], norm.epsilon if norm else 0.0,
        DEPTH=1024, **OPTIONS,
    )  # fmt: skip
    return values, scales
