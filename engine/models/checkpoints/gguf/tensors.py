"""Read a GGUF file's tensors under transformers' names and in its layout, one at a time.

Bytes are read, not mapped: kernels rearrange them into memory of their own anyway, and a mapped file
that somebody else truncates would kill the process, where a read raises an error. The rows of a matrix in
blocks are read as they are taken, so no matrix is ever in memory twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.kernels.formats.block_formats import LAYOUTS, SCALES
from engine.kernels.formats.blocks import Blocks
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.gguf.description import LocatedTensor, describe
from engine.models.checkpoints.gguf.header import GgufHeader, is_blocks
from engine.models.checkpoints.gguf.names import TensorRole
from engine.models.checkpoints.parts import PartEntry
from engine.models.checkpoints.safetensors_header import TensorEntry, unreadable
from engine.models.checkpoints.stored_tensor import (
    TORCH_DTYPES,
    TensorReader,
    check_finite,
    read_raw,
)

_EXPONENT = 0x7C00
"""The exponent bits of a float16: all ones only in infinities and NaN. The bits are compared because
widening every scale of a model takes longer than all other checks."""


class GgufTensors(TensorReader):
    """Fetches tensors from the files of a model; call it with transformers' name."""

    def open(self, checkpoint: Checkpoint) -> None:
        """See ``TensorReader``."""
        self._heads = checkpoint.heads, checkpoint.kv_heads
        self._located = describe(checkpoint.path).tensors

    def __call__(self, name: str) -> Tensor:
        """Return a tensor as floats, whatever the file's type. Raises as ``Tensors``."""
        weight = self.original(name)
        return self.convert(name, weight.dequantise() if isinstance(weight, Blocks) else weight)

    def weight(self, name: str) -> Tensor | Blocks:
        """Return blocks as they are, on the CPU, read as they are taken; other tensors as a call does."""
        weight = self.original(name)
        return weight if isinstance(weight, Blocks) else self.convert(name, weight)

    def original(self, name: str) -> Tensor | Blocks:
        """Return a tensor as the file has it, its rows in transformers' order."""
        return read_original(name, self._located[name], self._heads)


def read_original(name: str, located: LocatedTensor, heads: tuple[int, int]) -> Tensor | Blocks:
    """Return a tensor as the file has it, its rows in transformers' order; ``heads`` of queries and keys.

    Raises ModelError if the file cannot be read.
    """
    role, weight = located.role, _read(name, located)
    if located.factor != 1:
        weight = (
            weight.times(located.factor) if isinstance(weight, Blocks) else weight * located.factor
        )
    if role.interleaved:
        order = _halves(located.entry.shape[0], heads[role.keys])
        return weight.rows(order) if isinstance(weight, Blocks) else weight[order]
    if role.decay:
        assert isinstance(weight, Tensor)
        return torch.log(-weight.float())
    if role.centred:
        assert isinstance(weight, Tensor)
        # Exact: 1 + w was rounded to float32, and subtracting 1 needs no more digits.
        return weight.float() - 1
    return weight


def read_floats(header: GgufHeader, name: str) -> Tensor:
    """Return a tensor by its name in the file, as floats. Raises ModelError as ``check_finite``."""
    weight = _read(name, LocatedTensor(header, header.tensors[name], TensorRole(name)))
    tensor = weight.dequantise() if isinstance(weight, Blocks) else weight.float()
    check_finite(header.file, name, tensor)
    return tensor


def _read(name: str, located: LocatedTensor) -> Tensor | Blocks:
    entry = located.entry
    if isinstance(entry, PartEntry):
        whole = _read(name, replace(located, entry=entry.whole))
        if entry.rows is None:
            return whole
        rows = torch.tensor(entry.rows.among(len(whole)))
        return whole.rows(rows) if isinstance(whole, Blocks) else whole[rows]
    if not is_blocks(entry.dtype):
        data = _bytes_of(located.header, entry)
        return data.view(TORCH_DTYPES[entry.dtype]).view(entry.shape)
    if len(entry.shape) != 2:
        raise ModelError(
            f"In {located.header.file}, {name} is stored in {entry.dtype}, but is not a "
            f"matrix: {list(entry.shape)}. The file is damaged: download it again."
        )
    outputs, inputs = entry.shape
    return Blocks(entry.dtype.lower(), (outputs, inputs), _RowsInFile(located.header, name, entry))


@dataclass(frozen=True, slots=True, eq=False)
class _RowsInFile:
    """A matrix in blocks, as the tensor ``(rows, bytes of a row)`` that it would be in memory.

    Rows are read when they are taken, and their scales checked to be finite. Raises ModelError then.
    """

    header: GgufHeader
    name: str
    entry: TensorEntry
    dtype: torch.dtype = torch.uint8

    @property
    def shape(self) -> tuple[int, int]:
        outputs = self.entry.shape[0]
        return outputs, self.entry.nbytes // outputs

    @property
    def place(self) -> tuple[str, int]:
        """See ``StoredRows``."""
        return self.header.file.name, self.entry.start

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        if isinstance(rows, Tensor):  # from the first to the last that is taken
            first = int(rows.min())
            return self[first : int(rows.max()) + 1][rows - first]
        outputs, size = self.shape
        first, end, _ = rows.indices(outputs)
        part = replace(
            self.entry,
            shape=(end - first, self.entry.shape[1]),
            nbytes=(end - first) * size,
            start=self.entry.start + first * size,
        )
        data = _bytes_of(self.header, part).view(end - first, size)
        for scales in _scales(self.entry.dtype.lower(), data):
            if bool(((scales & _EXPONENT) == _EXPONENT).any()):
                check_finite(self.header.file, self.name, scales.view(torch.float16))
        return data

    def joined(self, following: object) -> _RowsInFile | None:
        """See ``StoredRows``."""
        if not isinstance(following, _RowsInFile) or following.header is not self.header:
            return None
        first, second = self.entry, following.entry
        if first.start + first.nbytes != second.start:
            return None
        shape = (first.shape[0] + second.shape[0], first.shape[1])
        entry = replace(first, shape=shape, nbytes=first.nbytes + second.nbytes)
        return replace(self, entry=entry)

    @contextmanager
    def opened(self) -> Iterator[tuple[BinaryIO, int]]:
        """See ``StoredRows``. Raises ModelError if the file changed, before or afterwards."""
        _check_unchanged(self.header)
        try:
            stream = self.header.file.open("rb", buffering=0)
        except OSError as error:
            raise unreadable(self.header.file, error) from error
        with stream:
            yield stream, self.entry.start
        _check_unchanged(self.header)


def _bytes_of(header: GgufHeader, entry: TensorEntry) -> Tensor:
    _check_unchanged(header)
    data = read_raw(header.file, entry)
    _check_unchanged(header)
    return data


def _scales(format: str, data: Tensor) -> Iterator[Tensor]:
    """Yield the bits of each block's float16 scales."""
    starts = SCALES.get(format, ())
    if starts:
        by_block = data.view(torch.int16).view(-1, LAYOUTS[format].size // 2)
        for start in starts:
            yield by_block[:, start // 2].contiguous()


def _check_unchanged(header: GgufHeader) -> None:
    """Raise ModelError if the file is no longer the one whose header was read."""
    try:
        now = os.stat(header.file)
    except OSError as error:
        raise unreadable(header.file, error) from error
    if (now.st_size, now.st_mtime_ns) != (header.size, header.modified):
        raise ModelError(
            f"{header.file} changed while it was loading. Wait until it is complete, then "
            "load it again."
        )


def _halves(rows: int, heads: int) -> Tensor:
    """Return the order that turns llama.cpp's interleaved rotary pairs into transformers' halves."""
    pairs = torch.arange(rows).view(heads, rows // heads // 2, 2)
    return pairs.transpose(1, 2).reshape(-1)
