"""A small random target, as most tests of training use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.models.base import HiddenStateModel
from tests.support.checkpoints import write_random
from tests.support.loading import load_model


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    write_random(folder)
    return folder


@pytest.fixture(scope="module")
def model(target: Path) -> HiddenStateModel:
    loaded = load_model(target, quantization="fp32")
    assert isinstance(loaded, HiddenStateModel)
    return loaded
