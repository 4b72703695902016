"""Tests that run whole models on a CUDA device, or in Triton's interpreter, are marked ``gpu``.

Where there is no CUDA device they are skipped, and ``test_interpreted`` runs them all in one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.machine.devices import Device
from tests.engine.backends.cuda.small import write_pair
from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED
from tests.support import interpreter


@pytest.fixture(scope="session")
def device() -> Iterator[torch.device]:
    """Return the device of models, and make every load choose it."""
    pytest.importorskip("triton")
    if not INTERPRETED:
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        yield DEVICE
        return
    interpreter.repair()
    with pytest.MonkeyPatch.context() as patch:
        device = Device(DEVICE, kernels=True)
        patch.setattr("engine.machine.devices.choose", lambda *_, **__: device)
        yield DEVICE


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of a small target and its draft."""
    root = tmp_path_factory.mktemp("pair")
    write_pair(root / "target", root / "draft")
    return root / "target", root / "draft"
