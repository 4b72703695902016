"""Read tensors from a file to a GPU through pinned memory: one part is read while another is copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from engine.models.checkpoints.safetensors_header import TensorEntry, read_into

_PART = 32 << 20
"""Bytes of a buffer."""
_pinned: list[Tensor] = []
"""The two buffers. They are never freed: freeing makes torch call the device, and if that is lost, the
error ends the process."""


class Staging:
    """Two buffers, pinned if ``device`` is a GPU."""

    def __init__(self, device: torch.device, part: int = _PART) -> None:
        self.device, self._part = device, part
        self._copied: list[torch.cuda.Event] = []
        if device.type != "cuda":
            self._buffers = [torch.empty(part, dtype=torch.uint8) for _ in range(2)]
            return
        if not _pinned:
            _pinned.extend(torch.empty(part, dtype=torch.uint8, pin_memory=True) for _ in range(2))
        self._buffers = _pinned
        self._copied = [torch.cuda.Event(), torch.cuda.Event()]

    def read(self, file: Path, entry: TensorEntry) -> Tensor:
        """Return a tensor's bytes on the device: uint8 (entry.nbytes,). Raises ModelError."""
        data = torch.empty(entry.nbytes, dtype=torch.uint8, device=self.device)
        for index, start in enumerate(range(0, entry.nbytes, self._part)):
            stop = min(start + self._part, entry.nbytes)
            buffer = self._buffers[index % 2][: stop - start]
            if self._copied:
                self._copied[index % 2].synchronize()
            part = replace(entry, start=entry.start + start, nbytes=stop - start)
            read_into(file, part, buffer.numpy().data)
            data[start:stop].copy_(buffer, non_blocking=True)
            if self._copied:
                self._copied[index % 2].record()
        return data
