"""A tree of drafted tokens, as the kernels read it: row 0 is the pending token, row n + 1 is node n.

A row is stored at its number and counts at its depth, where it would be if its branch were a chain.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.values import MAX_ROWS

TREE_SHAPE = (1 + MAX_ROWS, MAX_ROWS)


def tree_table(parents: Sequence[int]) -> Tensor:
    """Return int32 ``TREE_SHAPE``: each row's depth, then each row's ``branch``; 0 beyond its depth.

    ``parents``: of each row, an earlier one; -1 of row 0.
    """
    table = torch.zeros(TREE_SHAPE, dtype=torch.int32)
    for row in range(len(parents)):
        rows = branch(parents, row)
        table[0, row] = len(rows) - 1
        table[1 + row, : len(rows)] = torch.tensor(rows)
    return table


def branch(parents: Sequence[int], row: int) -> list[int]:
    """Return the rows from the root down to ``row``."""
    return [*branch(parents, parents[row]), row] if row else [0]
