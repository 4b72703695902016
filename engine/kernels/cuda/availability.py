"""Where Triton's kernels run."""

from __future__ import annotations

import os

import torch

from engine.machine.devices import has_triton


def is_interpreted() -> bool:
    """Return whether Triton interprets its kernels in this process, with NumPy on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def runs_kernels(device: torch.device) -> bool:
    """Return whether Triton's kernels can run on tensors on ``device``."""
    return has_triton() and (device.type == "cuda" or is_interpreted())
