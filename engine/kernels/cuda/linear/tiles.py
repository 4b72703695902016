"""Choose the tile of a weight that one program computes, and how many programs share its inputs.

Both follow from the weight's shape and format and the device's multiprocessors, never from the number of
rows: that would change the order of a sum, and with it a row's bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.values import MAX_ROWS

ROWS = MAX_ROWS
"""Rows of one tile: all rows of a round, and the least that tensor cores take."""
Kind = Literal["bf16", "int8", "nf4", "blocks4", "blocks5", "blocks6", "blocks8"]
"""Formats of weights; blocks by the bits of a code."""

MULTIPROCESSORS = 128
"""Those of an RTX 4090, where no device can be asked: in the interpreter."""
BESIDE = 2
"""Programs of a multiprocessor below which it has nothing to load while it adds."""
FILL = 2
"""Steps that it takes to fill and drain the pipeline of a program."""
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
# Those of blocks were not measured: of eight each, the one with the fewest instructions a weight and some
# registers to spare.
_SHAPES: dict[Kind, tuple[int, int, int, int]] = {
    "bf16": (64, 128, 8, 3),
    "int8": (64, 128, 4, 4),
    "nf4": (64, 128, 2, 4),
    "blocks4": (64, 128, 2, 4),
    "blocks5": (64, 128, 4, 4),
    "blocks6": (64, 128, 4, 4),
    "blocks8": (64, 128, 2, 4),
}


def choose_tile(outputs: int, width: int, kind: Kind, multiprocessors: int) -> Tile:
    """Return the tile for a weight ``(outputs, width)``.

    Of all numbers of splits, take the one with which the busiest multiprocessor has the fewest steps: so
    few outputs do not leave most of the device idle, nor many a last wave of a few programs.
    """
    columns, depth, warps, stages = _SHAPES[kind]
    steps, tiles = -(-width // depth), -(-outputs // columns)

    def cost(each: int) -> int:
        programs = tiles * -(-steps // each)
        return max(-(-programs // multiprocessors), BESIDE) * (each + FILL)

    most = max(min(steps // LEAST_STEPS, MOST_SPLITS), 1)
    split_steps = min((-(-steps // splits) for splits in range(1, most + 1)), key=cost)
    splits = -(-steps // split_steps)  # no split is empty
    return Tile(columns, depth, splits, split_steps * depth, warps, stages)
