"""What CUDA says when a device is gone, as the engine's own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import DeviceLost
from engine.machine import devices

if TYPE_CHECKING:
    import torch

_LOST = "CUDA error", "device-side", "cudaError", "CUDA driver error", "CUBLAS_STATUS"
"""In RuntimeErrors of Triton and cuBLAS that pass the driver's words on."""


@contextmanager
def device_errors(device: torch.device) -> Iterator[None]:
    """An error after which a process has no GPU any more becomes ``DeviceLost``; others go through.

    Among those is memory that runs out, of which ``engine.machine.device_memory`` tells.
    """
    try:
        yield
    except RuntimeError as error:
        if devices.ran_out(error) or not _is_lost(error):
            raise
        devices.lose(device)
        raise DeviceLost(
            f"The GPU stopped answering ({str(error).splitlines()[0]}). Whatever was in its memory "
            "is lost; your chats are kept. Load the pair again: it then runs on the CPU. To use the "
            "GPU again, restart the app, and the machine if nvidia-smi does not find it."
        ) from error


def _is_lost(error: RuntimeError) -> bool:
    import torch

    return isinstance(error, torch.AcceleratorError) or any(said in str(error) for said in _LOST)
