"""Read a tensor from a file, check that its numbers are finite, and convert it for a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.checkpoints.safetensors_header import TensorEntry, read_into

if TYPE_CHECKING:
    from engine.models.checkpoints.checkpoint import Checkpoint

TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "BOOL": torch.bool,
}  # fmt: skip
"""By safetensors' names, which are GGUF's too."""


def read_tensor(file: Path, entry: TensorEntry) -> Tensor:
    """Return a tensor in the file's dtype, on the CPU. Raises ModelError if the file cannot be read."""
    return read_raw(file, entry).view(TORCH_DTYPES[entry.dtype]).view(entry.shape)


def read_raw(file: Path, entry: TensorEntry) -> Tensor:
    """Return a tensor's bytes: uint8 (entry.nbytes,). Raises ModelError if the file cannot be read."""
    data = torch.empty(entry.nbytes, dtype=torch.uint8)
    read_into(file, entry, data.numpy().data)
    return data


def check_finite(path: Path, name: str, tensor: Tensor) -> None:
    """Raise ModelError that names the tensor if it holds NaN or an infinite number."""
    if not tensor.is_floating_point() or not tensor.numel():
        return
    low, high = tensor.detach().aminmax()  # NaN comes through both; nothing is copied
    if not bool(low.isfinite() & high.isfinite()):
        kind = "NaN" if bool(low.isnan()) else "an infinite number"
        raise ModelError(
            f"In {path}, the tensor {name} contains {kind}: the model is damaged, or its "
            "training diverged. Download it again, or use another checkpoint."
        )


class TensorReader(ABC):
    """Converts the tensors of a checkpoint, one at a time, for the model that computes with them.

    Vectors come in ``dtype``. Matrices do too, or with ``in_file_dtype`` in the file's: quantisation then
    widens them a part at a time.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        device: torch.device,
        *,
        in_file_dtype: bool = False,
    ) -> None:
        self.path, self.dtype, self.device = checkpoint.path, dtype, device
        self.in_file_dtype = in_file_dtype
        self.open(checkpoint)

    @abstractmethod
    def open(self, checkpoint: Checkpoint) -> None:
        """Read where the tensors are. Raises ModelError."""

    def convert(self, name: str, tensor: Tensor) -> Tensor:
        """Return the tensor on the device. Raises ModelError as ``check_finite``."""
        tensor = tensor.to(self.device)  # first: a GPU checks and converts it in no time
        check_finite(self.path, name, tensor)
        return tensor if self.in_file_dtype and tensor.dim() > 1 else tensor.to(self.dtype)
