"""The product of ``tests.support.interpreter`` adds in one order.

So where kernels are interpreted, as ``tests/engine/backends/cuda/test_interpreted.py`` does, equal bits
mean that a kernel treats rows alike.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.interpreter import product_in_order


@pytest.mark.parametrize(("depth", "columns"), [(16, 16), (64, 32), (128, 64), (192, 16)])
def test_the_interpreters_product_gives_a_row_the_same_bits_in_any_place(
    depth: int, columns: int
) -> None:
    """NumPy's product, which it replaces, gives different bits on most processors."""
    chance = np.random.default_rng(depth)
    row, weight = chance.standard_normal((1, depth)), chance.standard_normal((columns, depth))
    row, weight = row.astype(np.float32), weight.astype(np.float32).T  # as kernels turn it
    one_by_one = np.zeros(columns, np.float32)
    for at in range(depth):
        one_by_one += row[0, at] * weight[at]
    for rows in (1, 2, 7, 16):
        for place in range(rows):
            others = chance.standard_normal((rows, depth)).astype(np.float32)
            others[place] = row[0]
            for layout in (weight, np.ascontiguousarray(weight)):
                found = product_in_order(others, layout, np.float32)
                assert found[place].tobytes() == one_by_one.tobytes(), (rows, place)


def test_the_interpreters_product_of_whole_numbers_is_exact() -> None:
    chance = np.random.default_rng(1)
    a = chance.integers(-128, 128, (16, 64), dtype=np.int8)
    b = chance.integers(-128, 128, (64, 32), dtype=np.int8)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    found = product_in_order(a, b, np.int32)
    assert found.dtype == np.int32 and np.array_equal(found, exact)
