"""What CUDA says when it cannot go on, as the engine's errors; the process goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.round import DeviceRound, Mode
from engine.decoding.text import TextCodec
from engine.drafting.resources import Resources
from engine.errors import DeviceLost
from engine.local.session import Session
from engine.machine import devices
from engine.machine.failures import device_errors
from engine.request import Request, Speculation
from tests.engine.backends.cuda.small import load, write_pair

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
    stopped = pytest.raises(DeviceLost, match="stopped answering")
    with stopped as raised, device_errors(torch.device("cuda")):
        raise error
    assert "more lines" not in str(raised.value)
    assert devices.look().lost
    place = devices.decide("auto", devices.look())
    assert place.device == CPU and "Restart the app" in place.notes[0]


def test_what_is_no_failure_of_the_device_goes_through() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), device_errors(CPU):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    assert not devices.look().lost


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("error", "expected"),
    [(torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError), (LOST[0], DeviceLost)],
    ids=["no memory", "lost"],
)
def test_a_reply_that_fails_leaves_the_session_whole(
    error: RuntimeError, expected: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second round fails, with the first one's tokens shown; the next request starts as ever."""
    write_pair(tmp_path / "target", tmp_path / "draft")
    session = Session(load(tmp_path / "target"), TextCodec(tmp_path / "target"), Resources())
    request = Request(
        token_ids=(5, 6, 7), max_tokens=3, ignore_eos=True, speculation=Speculation(proposer="none")
    )
    whole = list(session.run(request, lambda: False))[-1]
    run, rounds = DeviceRound.run, []

    def failing(self: DeviceRound, mode: Mode) -> None:
        rounds.append(mode)
        if len(rounds) == 3:
            raise error
        run(self, mode)

    with monkeypatch.context() as patch:
        patch.setattr(DeviceRound, "run", failing)
        patch.setattr("engine.backends.cuda.graphs.Runner._capture", lambda self, mode: None)
        session.target._runner = None
        with pytest.raises(expected):
            list(session.run(request, lambda: False))
    assert len(session.target.tokens) == session.target.cache.length
    assert list(session.run(request, lambda: False))[-1] == whole
