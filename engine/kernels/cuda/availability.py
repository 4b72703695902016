"""Where Triton's kernels run."""

from __future__ import annotations

import os

import torch

from engine.machine.devices import has_triton


def is_interpreted() -> bool:
    """Whether Triton runs its kernels in NumPy in this process, on the CPU's memory."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def runs_kernels(device: torch.device) -> bool:
    """Whether Triton's kernels run on tensors that lie there."""
    return has_triton() and (device.type == "cuda" or is_interpreted())
