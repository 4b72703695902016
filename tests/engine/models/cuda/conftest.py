"""Tests that run whole models on a CUDA device, or in Triton's interpreter, are marked ``gpu``.

Where there is no CUDA device they are skipped, and ``test_interpreted`` runs them all in one process.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from engine.devices import Place
from engine.testing import interpreter
from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED


@pytest.fixture(scope="session")
def device() -> Iterator[torch.device]:
    """Where models run from here on, whatever they are loaded with."""
    pytest.importorskip("triton")
    if not INTERPRETED:
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        yield DEVICE
        return
    interpreter.repair()
    with pytest.MonkeyPatch.context() as patch:
        place = Place(DEVICE, kernels=True)
        patch.setattr("engine.devices.choose", lambda wanted=None: place)
        yield DEVICE
