"""Read a checkpoint's tensors one at a time, so that loading never holds more than it needs.

Bytes are read, not mapped: mapped pages would count as the process's memory until the file is closed,
and a model that is quantised while it loads would take as much memory as the file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.kernels.formats import nf4
from engine.kernels.formats.blocks import Blocks, to_blocks
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.gguf.tensors import GgufTensors
from engine.models.checkpoints.parts import MXFP4, PartEntry, split_tensors
from engine.models.checkpoints.prequantised import NF4, STATE, nf4_state
from engine.models.checkpoints.safetensors_header import TensorEntry, read_header
from engine.models.checkpoints.staging import Staging
from engine.models.checkpoints.stored_tensor import TORCH_DTYPES, TensorReader, read_tensor

FLOATS = ("F64", "F32", "F16", "BF16", NF4, MXFP4)
"""Dtypes that ``Tensors`` converts to floats: safetensors' names, bitsandbytes' 4 bits and gpt-oss'."""


class Tensors(TensorReader):
    """Fetches tensors from all safetensors files of a folder; call it with a name."""

    def open(self, checkpoint: Checkpoint) -> None:
        self._staging = Staging(self.device) if self.device.type == "cuda" else None
        files = sorted({info.file for info in checkpoint.tensors.values()})
        self._entries: dict[str, tuple[Path, TensorEntry]] = {
            name: (file, entry)
            for file in files
            for name, entry in split_tensors(file, read_header(file), checkpoint.text_config)
        }

    def __call__(self, name: str) -> Tensor:
        """Return the tensor ``name``. Raises KeyError if it is absent, ModelError if it is unusable."""
        weight = self.weight(name)
        return self.convert(name, weight.dequantise()) if isinstance(weight, Blocks) else weight

    def weight(self, name: str) -> Tensor | Blocks:
        """Return a tensor that is stored in MXFP4 as blocks, on the CPU; others as a call does."""
        if self._entries[name][1].dtype == MXFP4:
            return self._mxfp4(name)
        if name + STATE in self._entries:
            return self.convert(name, self._nf4(name))
        file, entry = self._entries[name]
        if self._staging is None or isinstance(entry, PartEntry):
            return self.convert(name, self._read(name))
        data = self._staging.read(file, entry)
        return self.convert(name, data.view(TORCH_DTYPES[entry.dtype]).view(entry.shape))

    def _read(self, name: str) -> Tensor:
        file, entry = self._entries[name]
        return _part(file, entry) if isinstance(entry, PartEntry) else read_tensor(file, entry)

    def _mxfp4(self, name: str) -> Blocks:
        """Return an expert's weight in GGUF's blocks."""
        file, entry = self._entries[name]
        assert isinstance(entry, PartEntry)
        codes = _part(file, replace(entry, dtype="U8"))  # (outputs, blocks, 16)
        file, scales = self._entries[entry.scales]
        rows, blocks, _ = entry.stored
        if scales.dtype != "U8" or scales.shape[1:] != (rows, blocks):
            raise ModelError(
                f"In {file}, {entry.scales} has shape {list(scales.shape)} in {scales.dtype}; "
                f"{rows} x {blocks} bytes per expert are required. Download the model again."
            )
        start, size = scales.start + entry.expert * rows * blocks, rows * blocks
        exponents = _part(
            file, replace(entry, dtype="U8", start=start, stored=(rows, blocks), stored_bytes=size)
        )
        return to_blocks(codes, exponents)

    def _nf4(self, name: str) -> Tensor:
        """Return a weight that bitsandbytes quantised as bf16 ``(out, in)``.

        Quantising that again gives the same codes and scales: each block's largest weight is its scale.
        """
        file, entry = self._entries[name + STATE]
        state = nf4_state(file, name, entry)
        rows, width = state.shape
        absmax = self._read(name + ".absmax")
        if state.nested_block:
            codes = self._read(name + ".nested_quant_map").float()
            scales = self._read(name + ".nested_absmax").float()
            scales = scales.repeat_interleave(state.nested_block)[: absmax.numel()]
            absmax = codes[absmax.view(-1).int()] * scales + state.nested_offset
        packed = self._read(name).view(-1).view(torch.uint8)
        if 2 * packed.numel() < rows * width or nf4.GROUP * absmax.numel() < rows * width:
            raise ModelError(
                f"In {self.path}, {name} has fewer than {rows:,} x {width:,} weights. Download "
                "the model again."
            )
        return nf4.dequantise(packed, absmax.view(-1), rows * width).view(rows, width)


def _part(file: Path, entry: PartEntry) -> Tensor:
    stored = read_tensor(file, entry.whole)
    outputs = stored.T if entry.transposed else stored
    return outputs if entry.rows is None else outputs[entry.rows.among(len(outputs))]


def open_tensors(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, *, in_file_dtype: bool = False
) -> Tensors | GgufTensors:
    """Return the tensors of a folder or of a GGUF file; see ``TensorReader``."""
    source = GgufTensors if checkpoint.is_gguf else Tensors
    return source(checkpoint, dtype, device, in_file_dtype=in_file_dtype)
