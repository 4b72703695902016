"""Read a checkpoint's tensors one at a time, so that loading never holds more than it needs.

Bytes are read, not mapped: mapped pages would count as the process's memory until the file is closed,
and a model that is quantised while it loads would take as much memory as the file.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.kernels.formats import nf4
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.common_names import common_name
from engine.models.checkpoints.gguf.tensors import GgufTensors
from engine.models.checkpoints.prequantised import NF4, STATE, nf4_state
from engine.models.checkpoints.safetensors_header import TensorEntry, read_header
from engine.models.checkpoints.stored_tensor import TensorReader, read_tensor

FLOATS = ("F64", "F32", "F16", "BF16", NF4)
"""Dtypes that ``Tensors`` converts to floats: safetensors' names, and bitsandbytes' 4 bits."""


class Tensors(TensorReader):
    """Fetches tensors from all safetensors files of a folder; call it with a name."""

    def open(self, checkpoint: Checkpoint) -> None:
        """See ``TensorReader``."""
        kind = checkpoint.text_config.get("model_type")
        files = sorted({info.file for info in checkpoint.tensors.values()})
        self._entries: dict[str, tuple[Path, TensorEntry]] = {
            common_name(kind, name): (file, entry)
            for file in files
            for name, entry in read_header(file).items()
        }

    def __call__(self, name: str) -> Tensor:
        """Return the tensor ``name``. Raises KeyError if it is absent, ModelError if it is unusable."""
        return self.convert(
            name, self._nf4(name) if name + STATE in self._entries else self._read(name)
        )

    def _read(self, name: str) -> Tensor:
        return read_tensor(*self._entries[name])

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
                f"In {self.path}, {name} holds fewer than the {rows:,} x {width:,} weights that it "
                "should. Download the model again."
            )
        return nf4.dequantise(packed, absmax.view(-1), rows * width).view(rows, width)


def open_tensors(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, *, in_file_dtype: bool = False
) -> Tensors | GgufTensors:
    """Return the tensors of a folder or of a GGUF file; see ``TensorReader``."""
    source = GgufTensors if checkpoint.is_gguf else Tensors
    return source(checkpoint, dtype, device, in_file_dtype=in_file_dtype)
