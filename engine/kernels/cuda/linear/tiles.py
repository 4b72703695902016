"""Which tile of a weight one program computes, and how many programs share the sum over its inputs.

Both follow from the weight's shape and format alone. Neither the number of rows nor the device has a
say: they would change the order of a sum, and with it a row's bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.values import MAX_ROWS

ROWS = MAX_ROWS
"""Rows of one tile: all of a round, and the least that tensor cores take."""
Kind = Literal["bf16", "int8", "nf4"]

PROGRAMS = 264
"""Programs to aim for: two on each of 132 multiprocessors, so that one loads while another adds."""
LEAST_STEPS = 4
"""Steps over the inputs that a program takes at least: fewer never fill the pipeline of loads."""
MOST_SPLITS = 8
"""Partial sums are written and read once more, and all of an output's are held in registers at once."""


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


# Columns, inputs a step, warps, stages. A stage of weights is 4 to 16 KiB; the two to four in flight
# cover the latency of memory, and several programs fit on a multiprocessor beside each other, also in
# the 99 KiB of shared memory that consumer cards (8.6, 8.9, 12.0) give one program. Sixteen rows are read
# again for every tile of columns, so narrow weights (NF4: half a byte) take wider tiles: or the rows
# would be most of the bytes. With 4 warps the sums of all splits and a norm's squares do not fit into
# the registers of a thread (bf16, NF4).
_SHAPES: dict[Kind, tuple[int, int, int, int]] = {
    "bf16": (64, 128, 8, 3),
    "int8": (64, 128, 4, 4),
    "nf4": (128, 64, 8, 5),
}


def choose_tile(outputs: int, width: int, kind: Kind) -> Tile:
    """The tile for a weight ``(outputs, width)``.

    The inputs are split until there are ``PROGRAMS`` programs: a weight of few outputs would otherwise
    leave most of the device idle.
    """
    columns, depth, warps, stages = _SHAPES[kind]
    steps = -(-width // depth)
    programs = -(-outputs // columns)
    wanted = min(-(-PROGRAMS // programs), steps // LEAST_STEPS, MOST_SPLITS)
    steps_each = -(-steps // max(wanted, 1))
    splits = -(-steps // steps_each)  # no split is left empty
    return Tile(columns, depth, splits, steps_each * depth, warps, stages)
