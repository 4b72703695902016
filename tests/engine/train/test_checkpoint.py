"""Stopping without losing anything."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import DiskError
from engine.train.output.checkpoint import load_checkpoint, save_checkpoint, uninterrupted


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """As in a terminal, whatever the tests were started from."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_takes_effect_behind_a_step() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append("the step")
    assert done == ["the step"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("_ctrl_c")
def test_a_second_ctrl_c_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("went on")


@pytest.mark.usefixtures("_ctrl_c")
def test_a_step_that_is_not_interrupted_leaves_no_trace() -> None:
    with uninterrupted():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_checkpoint_on_a_full_disk_leaves_the_old_one(tmp_path: Path) -> None:
    """torch tells a full disk by a RuntimeError, which reached people as a traceback."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no full disk to write to")
    path = tmp_path / "state" / "medusa.pt"
    save_checkpoint(path, {"step": 1})
    path.with_suffix(".partial").symlink_to("/dev/full")
    with pytest.raises(DiskError, match="Free some space"):
        save_checkpoint(path, {"step": 2})
    assert load_checkpoint(path) == {"step": 1}
