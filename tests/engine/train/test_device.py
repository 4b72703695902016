"""What the pass is computed in."""

from __future__ import annotations

import pytest
import torch

from engine.train import device
from engine.train.device import compute_dtype


@pytest.mark.parametrize("fastest", [torch.float32, torch.bfloat16])
def test_the_pass_is_in_what_the_processor_multiplies_fastest(
    fastest: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_product_seconds", lambda dtype: float(dtype != fastest))
    compute_dtype.cache_clear()
    assert compute_dtype(torch.device("cpu")) == fastest
    compute_dtype.cache_clear()
