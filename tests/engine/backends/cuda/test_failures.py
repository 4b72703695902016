"""Replies that fail on the device: memory runs out, or the GPU is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.round import DeviceRound, Mode
from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.errors import DeviceLost
from engine.local.session import Session
from engine.machine import devices
from engine.request import Request, Speculation
from tests.engine.backends.cuda.small import load, write_pair

LOST = RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.fixture(autouse=True)
def _own_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices lost in a test are lost for this test alone."""
    monkeypatch.setattr(devices, "_lost", set())


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            torch.OutOfMemoryError("CUDA out of memory"),
            torch.OutOfMemoryError,
            marks=pytest.mark.exhaustive,
            id="no memory",
        ),
        pytest.param(LOST, DeviceLost, id="lost"),
    ],
)
def test_a_reply_that_fails_leaves_the_session_whole(
    error: RuntimeError, expected: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second round fails after the first one's tokens were shown; the next request succeeds."""
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
    assert len(session.target.keys) == session.target.state.length
    assert list(session.run(request, lambda: False))[-1] == whole
