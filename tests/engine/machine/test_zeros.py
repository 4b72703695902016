"""Zeros that take memory once they are touched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from engine.machine.device_memory import zeros

PAGE = 4096


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(3, 5, 7), (0, 4)])
def test_they_are_torchs_zeros(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    made = zeros(shape, dtype)
    assert made.dtype == dtype and made.shape == shape
    assert torch.equal(made.float(), torch.zeros(shape))
    made[..., :1] = 1
    assert made.float().sum() == torch.ones(shape)[..., :1].sum()


def test_what_the_system_refuses_is_memory_that_ran_out() -> None:
    """It was an OSError, which no load told from a broken file."""
    with pytest.raises(MemoryError):
        zeros((1 << 48,), torch.float32)


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is asked of Linux")
def test_memory_comes_with_the_first_write() -> None:
    before = resident()
    made = zeros((256, 1 << 20), torch.float32)  # a gigabyte
    assert resident() - before < 50_000_000
    made[:64] = 1
    assert resident() - before > 200_000_000
