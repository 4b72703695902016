"""What CUDA says when it cannot go on, as the engine's errors; the process goes on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.errors import DeviceLost
from engine.machine import devices
from engine.machine.device_memory import pinned
from engine.machine.devices import device_errors

CPU = torch.device("cpu")


def of_torch(text: str, code: int) -> RuntimeError:
    """Return an error as torch raises it for a failed call of CUDA."""
    error = torch.AcceleratorError(f"CUDA error: {text}\nSearch for `cudaError' in the docs.")
    error.error_code = code  # type: ignore[attr-defined]
    return error


LOST = (
    RuntimeError("CUDA error: an illegal memory access was encountered\nmore lines"),
    RuntimeError("Triton Error [CUDA]: device-side assert triggered"),
    RuntimeError("Triton Error [CUDA]: the launch timed out and was terminated"),
    RuntimeError("Triton Error [CUDA]: operation not supported on global/shared address space"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    torch.AcceleratorError("CUDA error: unspecified launch failure"),
    of_torch("unknown error", 999),
)
REFUSED = (
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"),
    RuntimeError("CUDA error: too many resources requested for launch\nCompile with"),
    RuntimeError("Triton Error [CUDA]: invalid argument"),
    RuntimeError(
        "Triton Error [CUDA]: the provided PTX was compiled with an unsupported toolchain."
    ),
    RuntimeError("CUDA error: operation not permitted when stream is capturing"),
    of_torch("too many resources requested for launch", 701),
    of_torch("invalid configuration argument", 9),
    of_torch("operation failed due to a previous error during capture", 901),
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
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate(handle)"),
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
    "error", [*REFUSED, RuntimeError("mat1 and mat2 shapes cannot be multiplied")], ids=str
)
def test_what_the_device_refused_to_begin_goes_through(error: RuntimeError) -> None:
    with pytest.raises(RuntimeError) as raised, device_errors(torch.device("cuda")):
        raise error
    assert raised.value is error and not devices.look().lost


@pytest.mark.parametrize(("error", "goes_on"), [("out of memory", True), ("unknown error", False)])
def test_without_pinned_memory_copies_go_on_and_a_lost_gpu_is_told(
    error: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """WSL gives little of it, whatever is free."""
    empty = torch.empty

    def refusing(*shape: Any, pin_memory: bool = False, **more: Any) -> torch.Tensor:
        if pin_memory:
            raise torch.AcceleratorError(f"CUDA error: {error}")
        return empty(*shape, **more)

    monkeypatch.setattr(torch, "empty", refusing)
    if goes_on:
        assert pinned((2, 3), torch.uint8).shape == (2, 3)
        assert "out of memory" in caplog.text
        return
    with pytest.raises(torch.AcceleratorError):
        pinned((2, 3), torch.uint8)
