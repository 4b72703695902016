"""A matrix as it lies in a GGUF file: codes of a few bits in blocks that share scales.

Nothing here multiplies. The compiled step rearranges these bytes and multiplies by them; without it,
``dequantise`` returns the numbers they stand for. Grids, the values that indices stand for in IQ1, IQ2
and IQ3, come from the package ``gguf``. MXFP4 of safetensors checkpoints (gpt-oss) is rearranged to
GGUF's blocks without losing a bit: both have 16 bytes of codes and an exponent for 32 inputs, but in
safetensors a byte holds two neighbouring inputs, the first in its lower half, and in GGUF inputs k and
k + 16 of the block.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

import torch
from torch import Tensor

from engine.kernels.formats.block_formats import LAYOUTS

_CHUNK_ROWS = 1024
"""Rows that are dequantised at once, so that temporaries stay small."""


class StoredRows(Protocol):
    """Consecutive rows of a matrix that are still in a file, read when they are indexed."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def __getitem__(self, rows: Tensor | slice, /) -> Tensor: ...

    @property
    def place(self) -> tuple[str, int]:
        """The file's name, and where the rows begin in it."""
        ...

    def opened(self) -> AbstractContextManager[tuple[BinaryIO, int]]:
        """Open the file, for callers that read the rows themselves; also give where the rows begin."""
        ...

    def joined(self, following: StoredRows) -> StoredRows | None:
        """Return these rows and ``following`` as one, if these lie right behind them in the file."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReorderedRows:
    """Rows of a file in another ``order``, an int64 vector; read when they are indexed."""

    stored: StoredRows
    order: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.order), *self.stored.shape[1:]

    @property
    def dtype(self) -> torch.dtype:
        return self.stored.dtype

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        return self.stored[self.order[rows]]

    @property
    def place(self) -> tuple[str, int, str]:
        """Where the stored rows are, and a hash of the order."""
        return *self.stored.place, hashlib.sha256(self.order.numpy().tobytes()).hexdigest()


Rows = Tensor | StoredRows | ReorderedRows
"""The data of ``Blocks``: uint8 (rows, bytes of a row)."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """``shape`` (outputs, inputs) weights; ``data`` uint8 (outputs, bytes of a row), on the CPU.

    ``scale`` multiplies every weight: a factor that is folded into a matrix cannot be folded into codes.
    Raises ValueError for an unknown format and for bytes that do not make up such a matrix.
    """

    format: str
    shape: tuple[int, int]
    data: Rows
    scale: float = 1.0

    def __post_init__(self) -> None:
        layout, (outputs, inputs) = LAYOUTS.get(self.format), self.shape
        if layout is None:
            raise ValueError(f"{self.format} is no format of blocks: {', '.join(LAYOUTS)}")
        if inputs % layout.inputs:
            raise ValueError(
                f"{inputs} inputs are no multiple of {layout.inputs}, as {self.format} needs"
            )
        expected = outputs, inputs // layout.inputs * layout.size
        if self.data.dtype != torch.uint8 or tuple(self.data.shape) != expected:
            raise ValueError(
                f"{outputs} x {inputs} in {self.format} are {expected[0]} x {expected[1]} bytes, "
                f"not {tuple(self.data.shape)} in {self.data.dtype}"
            )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks."""
        outputs, size = self.data.shape
        return outputs * size

    def rows(self, index: Tensor | slice) -> Blocks:
        """Return some outputs in the order of ``index``. A slice is read into memory, or a tensor's view;
        what a vector chooses of a file is read when it is needed."""
        data = self.data
        if isinstance(index, slice) or isinstance(data, Tensor):
            data = data[index]
        elif isinstance(data, ReorderedRows):
            data = replace(data, order=data.order[index])
        else:
            data = ReorderedRows(data, index)
        return replace(self, shape=(data.shape[0], self.shape[1]), data=data)

    def split(self, counts: list[int]) -> list[Blocks]:
        """Return consecutive parts of ``counts`` outputs, in memory."""
        ends = itertools.accumulate(counts)
        return [self.rows(slice(end - count, end)) for end, count in zip(ends, counts, strict=True)]

    def in_parts(self, count: int) -> Iterator[Blocks]:
        """Yield consecutive parts of ``count`` outputs, each read when its turn comes."""
        for start in range(0, len(self), count):
            yield self.rows(slice(start, start + count))

    def times(self, scale: float) -> Blocks:
        """Return the same bytes with every weight multiplied by ``scale``."""
        return replace(self, scale=self.scale * scale)

    def dequantise(self) -> Tensor:
        """Return the weights as float32 ``(outputs, inputs)``."""
        wide = torch.empty(self.shape)
        for to, part in zip(wide.split(_CHUNK_ROWS), self.in_parts(_CHUNK_ROWS), strict=True):
            to.copy_(_dequantised(self.format, part.data[:]))
        return wide if self.scale == 1 else wide.mul_(self.scale)


def _dequantised(format: str, data: Tensor) -> Tensor:
    if format in _BITS:
        return _few_bits(data, LAYOUTS[format].size, _BITS[format])
    # Imported here: a machine that never reads such a file need not have it.
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    return torch.from_numpy(dequantize(data.numpy(), GGMLQuantizationType[format.upper()]))


_BITS = {"q1_0": 1, "q2_0": 2}
"""Bits of a code in formats that the package ``gguf`` cannot read."""


def _few_bits(data: Tensor, size: int, bits: int) -> Tensor:
    """Return -1 or 1, or with two bits -1 to 2, times the scale that begins each block."""
    blocks = data.reshape(-1, size)
    scale = blocks[:, :2].contiguous().view(torch.float16).float()
    codes = (blocks[:, 2:, None] >> torch.arange(0, 8, bits) & (1 << bits) - 1).flatten(1)
    values = codes.float() * 2 - 1 if bits == 1 else codes.float() - 1
    return (scale * values).view(len(data), -1)


Weight = Tensor | Blocks
"""A matrix (outputs, inputs) in any float dtype, or as it lies in a GGUF file."""
Stacked = Weight | tuple[Weight, ...]
"""A matrix, or parts of one, the outputs of the first above those of the next."""


def stack(*parts: Weight) -> Stacked:
    """Return ``parts`` as one matrix: a single tensor if all of them are tensors."""
    if len(parts) == 1:
        return parts[0]
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors) if len(tensors) == len(parts) else parts


def join_adjacent(parts: Iterable[Weight]) -> tuple[Weight, ...]:
    """Return ``parts`` with those joined that lie side by side in a file: they are loaded at once."""
    joined: list[Weight] = []
    for part in parts:
        whole = _joined(joined[-1], part) if joined else None
        if whole is not None:
            joined.pop()
        joined.append(part if whole is None else whole)
    return tuple(joined)


def _joined(first: Weight, second: Weight) -> Blocks | None:
    if (
        isinstance(first, Tensor)
        or isinstance(second, Tensor)
        or isinstance(first.data, Tensor | ReorderedRows)
        or isinstance(second.data, Tensor | ReorderedRows)
        or (first.format, first.shape[1], first.scale)
        != (second.format, second.shape[1], second.scale)
    ):
        return None
    data = first.data.joined(second.data)
    shape = len(first) + len(second), first.shape[1]
    return None if data is None else Blocks(first.format, shape, data, first.scale)


def widen(weight: Stacked) -> Tensor:
    """Return one tensor, for kernels that take only tensors: float32, or a single tensor's dtype."""
    if isinstance(weight, Tensor):
        return weight
    if isinstance(weight, Blocks):
        return weight.dequantise()
    return torch.cat([widen(part).float() for part in weight])


IN_GRIDS = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s")
"""Formats whose codes are such indices."""


@functools.cache
def grid_of(format: str) -> Tensor:
    """Return uint8 ``(indices, inputs of one)``, and for four inputs also ``(inputs, indices)``, flat.

    They are the values, but 8 (value + 1) in IQ1, where a shift of 1/8 is added to -1, 0 or 1.
    """
    # Imported here: a machine that never reads such a file need not have it.
    from gguf import quants

    kind = getattr(quants, format.upper())
    kind.init_grid()
    values = torch.from_numpy(kind.grid[0, 0])
    if format.startswith("iq1"):
        values = 8 * (values + 1)
    parts = [values, values.T] if values.shape[1] == 4 else [values]
    return torch.cat([part.flatten() for part in parts]).to(torch.uint8)


def to_blocks(codes: Tensor, exponents: Tensor) -> Blocks:
    """Return ``codes (..., outputs, groups, 16)`` and ``exponents (..., outputs, groups)`` as a matrix.

    Both are uint8. Leading axes, such as experts, are rows above each other.
    """
    groups = exponents.shape[-1]
    inputs = torch.stack([codes & 15, codes >> 4], dim=-1).view(-1, groups, 32)
    halves = inputs[..., :16] | inputs[..., 16:] << 4
    data = torch.cat([exponents.reshape(-1, groups, 1), halves], dim=-1).flatten(1)
    return Blocks("mxfp4", (len(data), groups * 32), data)
