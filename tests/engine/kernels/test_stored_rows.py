"""Loading rows from a file gives the same matrix as packing them from memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.kernels.formats.block_formats import DRAFT_FORMAT, LAYOUTS, NATIVE_FORMATS, SCALES
from engine.kernels.formats.blocks import Blocks
from engine.kernels.native.library import Kind, Library, Matrix
from tests.engine.machine.test_zeros import resident
from tests.support.block_matrices import random_blocks

OUTPUTS, INPUTS = 1000, 1280  # several pieces for each thread, the last of them no whole panel
BEFORE = 1001
"""Bytes before the rows in the file: rows need not be aligned."""


@dataclass(frozen=True, eq=False)
class InFile:
    """Rows in ``file``; reading them through Python raises ModelError."""

    file: Path
    shape: tuple[int, ...]
    start: int = BEFORE
    dtype: torch.dtype = torch.uint8

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        raise ModelError("taken piece by piece")

    @property
    def place(self) -> tuple[str, int]:
        return self.file.name, self.start

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[BinaryIO, int]]:
        with self.file.open("rb", buffering=0) as stream:
            yield stream, self.start


def stored(blocks: Blocks, file: Path) -> Blocks:
    assert isinstance(blocks.data, Tensor)
    file.write_bytes(bytes(BEFORE) + blocks.data.numpy().tobytes())
    return replace(blocks, data=InFile(file, tuple(blocks.data.shape)))


@pytest.mark.parametrize("rounded", [None, DRAFT_FORMAT])
@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_they_are_the_same_weights(
    format: str, rounded: str | None, tmp_path: Path, library: Library
) -> None:
    blocks = random_blocks(format, OUTPUTS, INPUTS)
    ours, theirs = (
        Matrix(library, Kind.FP32, each, rounded)
        for each in (stored(blocks, tmp_path / "m"), blocks)
    )
    assert torch.equal(ours.rows(range(OUTPUTS)), theirs.rows(range(OUTPUTS)))
    x = torch.randn(3, INPUTS, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours(x), theirs(x))


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is asked of Linux")
def test_rounding_wide_rows_leaves_nothing_behind(library: Library) -> None:
    """Each panel's blocks took slab memory that never came back: 2 GB for a draft of 7B in Q8_0."""
    blocks = random_blocks("q8_0", 2048, 16384)
    before = resident()
    matrix = Matrix(library, Kind.FP32, blocks, DRAFT_FORMAT)
    assert resident() - before < 1.5 * library.image_bytes(matrix.pointer)


def test_parts_in_a_file_stand_beside_parts_in_memory(tmp_path: Path, library: Library) -> None:
    parts = (
        random_blocks("q4_k", 32, 256).times(0.125),
        random_blocks("q4_k", 64, 256, seed=1),
        random_blocks("q6_k", 48, 256, seed=2).times(0.5),
        torch.randn(24, 256, generator=torch.Generator().manual_seed(3)),
    )
    mixed = stored(parts[0], tmp_path / "a"), parts[1], stored(parts[2], tmp_path / "b"), parts[3]
    ours, theirs = (Matrix(library, Kind.FP32, each) for each in (mixed, parts))
    assert torch.equal(ours.rows(range(168)), theirs.rows(range(168)))


@pytest.mark.parametrize("format", sorted(SCALES))
def test_a_scale_that_is_not_finite_is_refused(
    format: str, tmp_path: Path, library: Library
) -> None:
    """Any scale of the first block and of the last."""
    blocks = random_blocks(format, OUTPUTS, INPUTS)
    assert isinstance(blocks.data, Tensor)
    flat, block = blocks.data.view(-1), LAYOUTS[format].size
    for at in SCALES[format]:
        for place in (at, len(flat) - block + at):
            for wrong in (torch.inf, -torch.inf, torch.nan):
                kept = flat[place : place + 2].clone()
                flat[place : place + 2] = torch.tensor([wrong]).half().view(torch.uint8)
                with pytest.raises(ModelError, match="piece by piece"):
                    Matrix(library, Kind.FP32, stored(blocks, tmp_path / "m"))
                flat[place : place + 2] = kept
    Matrix(library, Kind.FP32, stored(blocks, tmp_path / "m"))


def test_a_truncated_file_is_refused(tmp_path: Path, library: Library) -> None:
    blocks = stored(random_blocks("q4_k", OUTPUTS, INPUTS), tmp_path / "m")
    assert isinstance(blocks.data, InFile)
    for start in (BEFORE + 1, 2 * OUTPUTS * INPUTS):
        with pytest.raises(ModelError, match="piece by piece"):
            Matrix(library, Kind.FP32, replace(blocks, data=replace(blocks.data, start=start)))
