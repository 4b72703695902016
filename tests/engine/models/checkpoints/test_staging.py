"""Tensors read through two buffers: the same bytes, whatever the size of a part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import ModelError
from engine.models.checkpoints.safetensors_header import read_header
from engine.models.checkpoints.staging import Staging
from engine.models.checkpoints.stored_tensor import read_raw

CPU = torch.device("cpu")


@pytest.mark.parametrize("part", [7, 64, 1000])
def test_parts_are_joined(tmp_path: Path, part: int) -> None:
    file = tmp_path / "model.safetensors"
    generator = torch.Generator().manual_seed(0)
    save_file({name: torch.randn(8, 9, generator=generator) for name in "ab"}, file)
    staging = Staging(CPU, part)
    for entry in read_header(file).values():
        assert torch.equal(staging.read(file, entry), read_raw(file, entry))


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(64)}, file)
    entry = read_header(file)["a"]
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ModelError, match=r"model\.safetensors is cut short"):
        Staging(CPU, 100).read(file, entry)
