"""A GGUF file's tensors under transformers' names and in its layout, one at a time.

Bytes are read, not mapped: what computes rearranges them into memory of its own anyway, and a mapped file
that is cut short by somebody else ends the process, where a read ends in an error that says so. Blocks
are read when they are taken, some rows after the other, so no matrix is ever there twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.kernels.formats.block_formats import LAYOUTS, SCALES
from engine.kernels.formats.blocks import Blocks
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.finite import check_finite
from engine.models.checkpoints.gguf.description import PlacedTensor, describe
from engine.models.checkpoints.gguf.header import GgufHeader
from engine.models.checkpoints.gguf.types import is_blocks
from engine.models.checkpoints.safetensors_header import TensorEntry, read_into

_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
}  # fmt: skip

_EXPONENT = 0x7C00
"""Of a float16: all ones in an infinite number and in NaN alone. Looked for in the bits, since to widen
every scale of a model takes longer than all else that is checked."""


class GgufTensors:
    """As ``checkpoints.tensors.Tensors``, whose arguments these are; see there."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        device: torch.device,
        *,
        in_file_dtype: bool = False,
    ) -> None:
        self.file = checkpoint.path
        self.dtype, self.device, self.in_file_dtype = dtype, device, in_file_dtype
        self._heads = {False: checkpoint.heads, True: checkpoint.kv_heads}
        self._places = describe(checkpoint.path).tensors

    def __call__(self, name: str) -> Tensor:
        """Floats, whatever they are in the file. Raises as ``Tensors``."""
        found = self.original(name)
        tensor = found.dequantise() if isinstance(found, Blocks) else found
        return self._placed(name, tensor)

    def _placed(self, name: str, tensor: Tensor) -> Tensor:
        check_finite(self.file, name, tensor)
        if self.in_file_dtype and tensor.dim() > 1:
            return tensor.to(self.device)
        return tensor.to(self.device, self.dtype)

    def weight(self, name: str) -> Tensor | Blocks:
        """Likewise, but blocks as they are, on the CPU, read as they are taken."""
        found = self.original(name)
        return found if isinstance(found, Blocks) else self._placed(name, found)

    def original(self, name: str) -> Tensor | Blocks:
        """A tensor as the file has it, its rows in transformers' order."""
        placed = self._places[name]
        known = placed.known
        found = _read(name, placed)
        if known.turned:
            order = _apart(placed.entry.shape[0], self._heads[known.keys])
            return found.rows(order) if isinstance(found, Blocks) else found[order]
        if known.centred:
            assert isinstance(found, Tensor)
            # Exact: 1 + w was rounded to float32, and that less 1 needs no more digits.
            return found.float() - 1
        return found


def _read(name: str, placed: PlacedTensor) -> Tensor | Blocks:
    entry = placed.entry
    if not is_blocks(entry.dtype):
        data = _bytes_of(placed.header, entry)
        return data.view(_DTYPES[entry.dtype]).view(entry.shape)
    if len(entry.shape) != 2:
        raise ModelError(
            f"In {placed.header.file}, {name} is stored in {entry.dtype}, but is no matrix: "
            f"{list(entry.shape)}. The file is damaged: download it again."
        )
    outputs, inputs = entry.shape
    rows = _RowsInFile(placed.header, name, entry)
    return Blocks(entry.dtype.lower(), (outputs, inputs), rows)


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

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        if isinstance(rows, Tensor):
            return self[:][rows]
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

    @contextmanager
    def opened(self) -> Iterator[tuple[BinaryIO, int]]:
        """See ``StoredRows``. Raises ModelError where the file is another one, before or afterwards."""
        _check_unchanged(self.header)
        try:
            stream = self.header.file.open("rb", buffering=0)
        except OSError as error:
            raise _unreadable(self.header.file, error) from error
        with stream:
            yield stream, self.entry.start
        _check_unchanged(self.header)


def _bytes_of(header: GgufHeader, entry: TensorEntry) -> Tensor:
    _check_unchanged(header)
    data = torch.empty(entry.nbytes, dtype=torch.uint8)
    read_into(header.file, entry, data.numpy().data)
    _check_unchanged(header)
    return data


def _scales(format: str, data: Tensor) -> Iterator[Tensor]:
    """The float16 numbers in blocks that others are multiplied by, as the bits that they are."""
    starts = SCALES.get(format, ())
    if starts:
        by_block = data.view(torch.int16).view(-1, LAYOUTS[format].size // 2)
        for start in starts:
            yield by_block[:, start // 2].contiguous()


def _check_unchanged(header: GgufHeader) -> None:
    """Raises ModelError where the file is no longer the one whose header was read."""
    try:
        now = os.stat(header.file)
    except OSError as error:
        raise _unreadable(header.file, error) from error
    if (now.st_size, now.st_mtime_ns) != (header.size, header.modified):
        raise ModelError(
            f"{header.file} changed while it was being loaded. Wait until whatever writes it is done, "
            "then load it again."
        )


def _unreadable(file: Path, error: OSError) -> ModelError:
    return ModelError(
        f"{file} cannot be read: {error.strerror}. Check the path and its permissions."
    )


def _apart(rows: int, heads: int) -> Tensor:
    """Where transformers' rows lie in llama.cpp's, which has the partners of a head's pairs together."""
    pairs = torch.arange(rows).view(heads, rows // heads // 2, 2)
    return pairs.transpose(1, 2).reshape(-1)
