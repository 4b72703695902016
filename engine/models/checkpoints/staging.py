"""Read tensors from a file to a GPU through pinned memory: one part is read while another is copied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from engine.machine.device_memory import pinned
from engine.models.checkpoints.safetensors_header import TensorEntry, read_into

_PART = 32 << 20
"""Bytes of a buffer."""


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Memory that a GPU copies from; ``copied`` is recorded after each copy, before which nobody may
    write to it. It belongs to the memory and not to a reader: a draft's follows a target's."""

    memory: Tensor
    copied: torch.cuda.Event | None = None


_pinned: list[_Buffer] = []
"""The two buffers. They are never freed: freeing makes torch call the device, and if that is lost, the
error ends the process."""


class Staging:
    """Two buffers, pinned if ``device`` is a GPU."""

    def __init__(self, device: torch.device, part: int = _PART) -> None:
        self.device, self._part, self._buffers = device, part, _pinned
        if device.type != "cuda":
            self._buffers = [_Buffer(torch.empty(part, dtype=torch.uint8)) for _ in range(2)]
        elif not _pinned:
            for _ in range(2):
                _pinned.append(_Buffer(pinned((part,), torch.uint8), torch.cuda.Event()))

    def read(self, file: Path, entry: TensorEntry) -> Tensor:
        """Return a tensor's bytes on the device: uint8 (entry.nbytes,). Raises ModelError."""
        data = torch.empty(entry.nbytes, dtype=torch.uint8, device=self.device)
        for index, start in enumerate(range(0, entry.nbytes, self._part)):
            stop = min(start + self._part, entry.nbytes)
            buffer = self._buffers[index % 2]
            memory, copied = buffer.memory[: stop - start], buffer.copied
            if copied is not None:
                copied.synchronize()
            part = replace(entry, start=entry.start + start, nbytes=stop - start)
            read_into(file, part, memory.numpy().data)
            data[start:stop].copy_(memory, non_blocking=True)
            if copied is not None:
                copied.record()
        return data
