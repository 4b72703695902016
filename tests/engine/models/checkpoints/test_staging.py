"""Tensors read through two buffers: the same bytes, whatever the size of a part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import ModelError
from engine.models.checkpoints import staging
from engine.models.checkpoints.safetensors_header import TensorEntry, read_header
from engine.models.checkpoints.staging import Staging
from engine.models.checkpoints.stored_tensor import read_raw

CPU = torch.device("cpu")


@pytest.mark.parametrize("part", [7, 64, 1000])
def test_parts_are_joined(tmp_path: Path, part: int) -> None:
    file = tmp_path / "model.safetensors"
    generator = torch.Generator().manual_seed(0)
    save_file({name: torch.randn(8, 9, generator=generator) for name in "ab"}, file)
    reader = Staging(CPU, part)
    for entry in read_header(file).values():
        assert torch.equal(reader.read(file, entry), read_raw(file, entry))


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(64)}, file)
    entry = read_header(file)["a"]
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ModelError, match=r"model\.safetensors is cut short"):
        Staging(CPU, 100).read(file, entry)


class Copy:
    """An event that is never passed before somebody waits for it."""

    running = False

    def record(self) -> None:
        self.running = True

    def synchronize(self) -> None:
        self.running = False


def test_nobody_writes_to_a_buffer_that_is_being_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the next part or tensor, nor the reader of another model."""
    buffers = [staging._Buffer(torch.empty(100, dtype=torch.uint8), Copy()) for _ in range(2)]  # type: ignore[arg-type]
    read, reads = staging.read_into, 0

    def read_into(file: Path, entry: TensorEntry, into: memoryview) -> None:
        nonlocal reads
        reads += 1
        start = torch.frombuffer(into, dtype=torch.uint8).data_ptr()
        (buffer,) = (each for each in buffers if each.memory.data_ptr() == start)
        assert not buffer.copied.running  # type: ignore[union-attr]
        read(file, entry, into)

    monkeypatch.setattr(staging, "_pinned", buffers)
    monkeypatch.setattr(staging, "read_into", read_into)
    file = tmp_path / "model.safetensors"
    save_file({name: torch.randn(8, 9) for name in "ab"}, file)
    for _ in range(2):
        reader = Staging(torch.device("cuda"), 100)
        reader.device = CPU
        for entry in read_header(file).values():
            assert torch.equal(reader.read(file, entry), read_raw(file, entry))
    assert reads == 12
