"""Few combinations that hold every pair of values: what is tested in place of a full product.

Mistakes that need two settings together are found so; those that need three by chance only. See
Cohen, Dalal, Fredman, Patton, "The AETG System" (1997), whose greedy construction this is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import combinations, product
from typing import Any

Cell = tuple[int, int]
"""An axis and the index of one of its values."""


def all_pairs(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows with one value of each axis; every two values of different axes meet in some row.

    Deterministic: the same axes give the same rows, whatever else runs. Equal values within one axis
    count once. Never more rows than the full product. Raises ValueError for an axis without values.
    """
    if not all(axes):
        raise ValueError("an axis without values has no pairs")
    sizes = [len(dict.fromkeys(map(_key, axis))) for axis in axes]
    values = [list({_key(value): value for value in axis}.values()) for axis in axes]
    if len(axes) < 3:
        return list(product(*values))
    return [tuple(values[axis][index] for axis, index in enumerate(row)) for row in _rows(sizes)]


def _key(value: Any) -> Hashable:
    """What tells two values apart; those that cannot be hashed, by what they look like."""
    return value if isinstance(value, Hashable) else repr(value)


def _rows(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Rows of indices: each takes the first missing pair, and then the best for every other axis."""
    axes = range(len(sizes))
    missing = {
        ((a, left), (b, right))
        for a, b in combinations(axes, 2)
        for left in range(sizes[a])
        for right in range(sizes[b])
    }
    used: Counter[Cell] = Counter()
    while missing:
        row = dict(min(missing))
        for axis in sorted(set(axes) - row.keys(), key=lambda each: -sizes[each]):
            cells = [(axis, index) for index in range(sizes[axis])]
            row[axis] = max(cells, key=partial(_worth, row, missing, used))[1]
        missing -= {_pair(one, other) for one, other in combinations(row.items(), 2)}
        used.update(row.items())
        yield tuple(row[axis] for axis in axes)


def _worth(
    row: Mapping[int, int], missing: Set[tuple[Cell, Cell]], used: Counter[Cell], cell: Cell
) -> tuple[int, int]:
    """How many missing pairs ``cell`` makes with what the row has; among equals, the least used."""
    return sum(_pair(cell, held) in missing for held in row.items()), -used[cell]


def _pair(one: Cell, other: Cell) -> tuple[Cell, Cell]:
    """The two by their axes."""
    return (one, other) if one[0] < other[0] else (other, one)
