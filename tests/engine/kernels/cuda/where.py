"""The device of this folder's kernels: Triton's interpreter, or CUDA."""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, Phase, settings

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton decides this when it is imported, so one process cannot do both."""
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")


def examples(interpreted: int, on_device: int = 24) -> settings:
    """Use the same examples in every run, and do not shrink them.

    The interpreter is slow, and on a device nearly every example is a kernel to compile: a search would
    take minutes of a GPU that may be lent.
    """
    return settings(
        max_examples=interpreted if INTERPRETED else on_device,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
        phases=(Phase.explicit, Phase.generate),
    )
