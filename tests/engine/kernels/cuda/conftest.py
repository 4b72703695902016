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
    """Where kernels run: a CUDA device, or the interpreter's memory."""
    pytest.importorskip("triton")
    if INTERPRETED:
        interpreter.repair()
    elif not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return DEVICE
