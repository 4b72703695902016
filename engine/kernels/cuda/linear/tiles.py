"""Choose the tile of a weight that one program computes, and how many programs share its inputs.

Both follow from the weight's shape and format alone, never from the number of rows or the device: these
would change the order of a sum, and with it a row's bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.values import MAX_ROWS

ROWS = MAX_ROWS
"""Rows of one tile: all rows of a round, and the least that tensor cores take."""
Kind = Literal["bf16", "int8", "nf4"]

PROGRAMS = 264
"""Programs to aim for: two on each of 132 multiprocessors, so that one loads while another adds."""
LEAST_STEPS = 4
"""Least steps over the inputs in a program: fewer never fill the pipeline of loads."""
MOST_SPLITS = 8
"""Partial sums are written and read once more, and those of one output are in registers at once."""


@dataclass(frozen=True, slots=True)
class Tile:
    """``columns`` outputs times ``depth`` inputs a step; ``splits`` programs share the inputs.

    ``stages`` steps are in flight at once. ``span`` is the number of inputs of one split.
    """

    columns: int
    depth: int
    splits: int
    span: int
    warps: int
    stages: int


# Columns, inputs a step, warps, stages: the fastest of a dozen on an H200 (docs/log/cuda.md). A stage of
# weights is 4 to 16 KiB; two to three in flight hide the latency of memory, and several programs fit on a
# multiprocessor, also in the 99 KiB of shared memory that consumer cards (8.6, 8.9, 12.0) give one
# program. NF4 is limited by decoding: its threads have many registers, to decode many bytes at once.
_SHAPES: dict[Kind, tuple[int, int, int, int]] = {
    "bf16": (64, 128, 8, 3),
    "int8": (64, 128, 4, 4),
    "nf4": (64, 128, 2, 4),
}


def choose_tile(outputs: int, width: int, kind: Kind) -> Tile:
    """Return the tile for a weight ``(outputs, width)``.

    Split the inputs until there are ``PROGRAMS`` programs: otherwise a weight of few outputs would leave
    most of the device idle.
    """
    columns, depth, warps, stages = _SHAPES[kind]
    steps = -(-width // depth)
    programs = -(-outputs // columns)
    splits = min(-(-PROGRAMS // programs), steps // LEAST_STEPS, MOST_SPLITS)
    split_steps = -(-steps // max(splits, 1))
    splits = -(-steps // split_steps)  # no split is empty
    return Tile(columns, depth, splits, split_steps * depth, warps, stages)
