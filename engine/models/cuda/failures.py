"""What CUDA says when it cannot go on, told as the engine's own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine import devices
from engine.errors import DeviceLost, OutOfMemory

_LOST = "CUDA error", "device-side", "cudaError", "CUDA driver error", "CUBLAS_STATUS"


@contextmanager
def told(device: torch.device) -> Iterator[None]:
    """Out of memory becomes ``OutOfMemory``, a device that fails ``DeviceLost``. Others go through."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(_no_room(device)) from error
    except RuntimeError as error:
        if not _is_lost(error):
            raise
        devices.lose(device)
        raise DeviceLost(
            f"The GPU stopped answering ({str(error).splitlines()[0]}). Whatever was in its memory "
            "is lost; your chats are kept. Load the pair again: it then runs on the CPU. To use the "
            "GPU again, restart the app, and the machine if nvidia-smi does not find it."
        ) from error


def _is_lost(error: RuntimeError) -> bool:
    """Whether torch passes on an error of the driver, after which a process has no GPU any more."""
    kind = getattr(torch, "AcceleratorError", None)
    if kind is not None and isinstance(error, kind):
        return True
    # Triton and cuBLAS raise plain RuntimeErrors with the driver's words.
    return any(words in str(error) for words in _LOST)


def _no_room(device: torch.device) -> str:
    """After freeing what torch only keeps for later."""
    if device.type != "cuda":
        return "There was no memory left for this step. Close other programs and try again."
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    return (
        f"The GPU has no memory left for this: {free / 1e9:.1f} of {total / 1e9:.1f} GB are free now. "
        "What is loaded stays. Load the pair again with a shorter context, in int8 or nf4, or without a "
        "draft, or close other programs that use the GPU."
    )
