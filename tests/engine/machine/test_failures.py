"""What CUDA says when it cannot go on, as the engine's errors; the process goes on."""

from __future__ import annotations

import pytest
import torch

from engine.errors import DeviceLost
from engine.machine import devices
from engine.machine.devices import device_errors

CPU = torch.device("cpu")
LOST = (
    RuntimeError("CUDA error: an illegal memory access was encountered\nmore lines"),
    RuntimeError("Triton Error [CUDA]: device-side assert triggered"),
    torch.AcceleratorError("CUDA error: unspecified launch failure"),
)


@pytest.fixture(autouse=True)
def nothing_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_lost", set())


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
    ],
    ids=str,
)
def test_a_device_without_memory_is_not_lost(error: RuntimeError) -> None:
    with pytest.raises(type(error)), device_errors(torch.device("cuda")):
        raise error
    assert not devices.look().lost


@pytest.mark.parametrize("error", LOST, ids=str)
def test_a_device_that_failed_is_told_and_not_used_again(error: RuntimeError) -> None:
    stopped = pytest.raises(DeviceLost, match="stopped responding")
    with stopped as raised, device_errors(torch.device("cuda")):
        raise error
    assert "more lines" not in str(raised.value)
    assert devices.look().lost
    place = devices.decide("auto", devices.look())
    assert place.torch_device == CPU and "Restart Foretoken" in place.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "mat1 and mat2 shapes cannot be multiplied",
        "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`",
    ],
)
def test_what_is_no_failure_of_the_device_goes_through(text: str) -> None:
    with pytest.raises(RuntimeError, match=text), device_errors(torch.device("cuda")):
        raise RuntimeError(text)
    assert not devices.look().lost
