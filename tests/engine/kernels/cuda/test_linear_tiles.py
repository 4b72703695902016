"""Tiles follow from shape and format alone, and splits leave nothing out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.cuda.linear.tiles import LEAST_STEPS, MOST_SPLITS, PROGRAMS, choose_tile
from tests.engine.kernels.cuda.cases import KINDS


@given(st.integers(1, 200_000), st.integers(1, 30_000), st.sampled_from(KINDS))
def test_every_input_is_in_one_split(outputs: int, width: int, kind: str) -> None:
    tile = choose_tile(outputs, width, kind)  # type: ignore[arg-type]
    assert tile.span % tile.depth == 0
    assert tile.span * (tile.splits - 1) < width <= tile.span * tile.splits
    assert tile.splits <= MOST_SPLITS
    assert tile.splits == 1 or tile.span >= LEAST_STEPS * tile.depth


@pytest.mark.parametrize(
    "shape", [(4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336)], ids=str
)
def test_weights_of_8b_models_fill_a_device(shape: tuple[int, int]) -> None:
    for kind in KINDS:
        tile = choose_tile(*shape, kind)
        assert -(-shape[0] // tile.columns) * tile.splits >= 0.8 * PROGRAMS
