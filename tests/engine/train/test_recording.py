"""Recorded replies: what is written is read again, and nothing is lost when writing stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor

from engine.models.hidden_states import NORMED, AuxLayer
from engine.train.data import recording as module
from engine.train.data.recording import (
    RecordedReply,
    Recording,
    RecordingError,
    batched,
    with_normed,
)

TAPS = (AuxLayer(1), NORMED)
HIDDEN = 8


def reply(length: int, start: int, seed: int = 0) -> tuple[RecordedReply, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(TAPS), length - 1, HIDDEN, generator=generator)
    return RecordedReply(tuple(range(length)), start, 0.5), states


def test_replies_come_back_as_they_were(tmp_path: Path) -> None:
    first, second, third = reply(5, 2, 1), reply(9, 3, 2), reply(4, 1, 3)
    recording = Recording(tmp_path, TAPS)
    recording.add([first, second])
    recording.add([third])
    for found in (recording, Recording(tmp_path, TAPS)):
        assert [kept.length for kept in found.replies] == [5, 9, 4]
        for kept, (given, states) in zip(found.replies, (first, second, third), strict=True):
            assert found.tokens(kept).tolist() == list(given.tokens)
            assert (kept.start, kept.temperature) == (given.start, given.temperature)
            for at, aux_layer in enumerate(TAPS):
                read = found.states(aux_layer, kept)
                assert torch.equal(read[:-1], states[at].bfloat16())
                assert not read[-1].any()


def test_a_recording_may_hold_more_than_is_needed(tmp_path: Path) -> None:
    given, states = reply(5, 2)
    Recording(tmp_path, TAPS).add([(given, states)])
    less = Recording(tmp_path, (NORMED,))
    less.add([(given, states)])
    for kept in less.replies:
        assert torch.equal(less.states(NORMED, kept)[:-1], states[1].bfloat16())


def test_a_recording_that_lacks_hidden_states_is_refused(tmp_path: Path) -> None:
    Recording(tmp_path, TAPS).add([reply(5, 2)])
    with pytest.raises(RecordingError, match=r"no hidden states of layer 4.*replies\.layers"):
        Recording(tmp_path, (AuxLayer(4), NORMED))


FULL = "No space left on device"


@pytest.mark.parametrize("error", [OSError(28, FULL), SafetensorError(f"I/O error: {FULL}")])
def test_a_full_disk_loses_the_last_shard_alone(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package raises its own error, which is no OSError."""
    recording = Recording(tmp_path, TAPS)
    recording.add([reply(5, 2)])

    def full(tensors: object, path: str, metadata: object) -> None:
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(RecordingError, match=r"No space left on device.*Free some space"):
        recording.add([reply(6, 2)])
    assert len(Recording(tmp_path, TAPS).replies) == 1
    assert [file.suffix for file in tmp_path.iterdir()] == [".safetensors"]


def test_what_the_output_head_takes_is_always_recorded_once() -> None:
    assert with_normed((AuxLayer(3),)) == (AuxLayer(3), NORMED)
    assert with_normed((NORMED, AuxLayer(3))) == (AuxLayer(3), NORMED)


def test_a_stop_keeps_the_replies_that_are_not_on_disk_yet() -> None:
    """Two minutes of answers were once thrown away by every Stop."""

    def answers() -> Iterator[str]:
        yield from ("one", "two", "three")
        raise KeyboardInterrupt

    kept: list[list[str]] = []
    with pytest.raises(KeyboardInterrupt):
        kept.extend(batched(answers(), 2, lambda: False))
    assert kept == [["one", "two"], ["three"]]
