"""Tests that launch kernels are marked ``gpu`` and ask for ``device``.

Where there is no CUDA device they are skipped, and ``test_interpreted`` runs them all in one process.
"""

from __future__ import annotations

import pytest
import torch

from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED
from tests.support import interpreter


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Return the device of kernels: CUDA, or the CPU for the interpreter."""
    pytest.importorskip("triton")
    if INTERPRETED:
        interpreter.repair()
    elif not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return DEVICE
