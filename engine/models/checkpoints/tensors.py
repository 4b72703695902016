"""A checkpoint's tensors by name, one at a time, so that loading never holds more than it needs.

Bytes are read, not mapped: mapped pages would count as the process's memory until the file is closed,
and a model that is quantised while it loads would weigh as much as the file.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.kernels.formats import nf4
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.checkpoints.finite import check_finite
from engine.models.checkpoints.gguf.tensors import GgufTensors
from engine.models.checkpoints.prequantised import NF4, STATE, nf4_state
from engine.models.checkpoints.safetensors_header import TensorEntry, read_header, read_into

TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "BOOL": torch.bool,
}  # fmt: skip
FLOATS = ("F64", "F32", "F16", "BF16", NF4)
"""What ``Tensors`` makes floats of: safetensors' names, and bitsandbytes' 4 bits."""


class Tensors:
    """Fetches tensors from all shards; call it with a name.

    Vectors come in ``dtype``. Matrices do too, or in the file's with ``in_file_dtype``: what quantises
    them then widens a part at a time. Every tensor is checked to be finite.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        device: torch.device,
        *,
        in_file_dtype: bool = False,
    ) -> None:
        self.folder = checkpoint.path
        self.dtype, self.device, self.in_file_dtype = dtype, device, in_file_dtype
        files = sorted({info.file for info in checkpoint.tensors.values()})
        self.places: dict[str, tuple[Path, TensorEntry]] = {
            name: (file, entry) for file in files for name, entry in read_header(file).items()
        }

    def __call__(self, name: str) -> Tensor:
        """Raises KeyError for a tensor that is not there, ModelError for one that is no use."""
        tensor = self._nf4(name) if name + STATE in self.places else self._read(name)
        check_finite(self.folder, name, tensor)
        if self.in_file_dtype and tensor.dim() > 1:
            return tensor.to(self.device)
        return tensor.to(self.device, self.dtype)

    def _read(self, name: str) -> Tensor:
        return read_tensor(*self.places[name])

    def _nf4(self, name: str) -> Tensor:
        """A weight that bitsandbytes quantised, as bf16 ``(out, in)``.

        Quantising that again gives the same codes and scales: each block's largest weight is its scale.
        """
        state = nf4_state(self.places[name + STATE][0], name, self.places[name + STATE][1])
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
                f"In {self.folder}, {name} holds fewer than the {rows:,} x {width:,} weights that it "
                "should. Download the model again."
            )
        return nf4.dequantise(packed, absmax.view(-1), rows * width).view(rows, width)


def read_tensor(file: Path, entry: TensorEntry) -> Tensor:
    """A tensor in the file's dtype, on the CPU. Raises ModelError for a file that cannot be read."""
    buffer = torch.empty(entry.nbytes, dtype=torch.uint8)
    read_into(file, entry, buffer.numpy().data)
    return buffer.view(TORCH_DTYPES[entry.dtype]).view(entry.shape)


def open_tensors(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, *, in_file_dtype: bool = False
) -> Tensors | GgufTensors:
    """The tensors of a folder or of a GGUF file; see ``Tensors``."""
    source = GgufTensors if checkpoint.is_gguf else Tensors
    return source(checkpoint, dtype, device, in_file_dtype=in_file_dtype)
