"""The combinations that stand in for full products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pairwise import all_pairs

AXES = st.lists(st.integers(1, 5).map(range), min_size=1, max_size=5)


@settings(max_examples=60)
@given(AXES)
def test_every_two_values_of_two_axes_meet_in_few_rows(axes: list[Sequence[int]]) -> None:
    rows = all_pairs(*axes)
    assert all(value in axis for row in rows for value, axis in zip(row, axes, strict=True))
    for a, b in combinations(range(len(axes)), 2):
        assert {(row[a], row[b]) for row in rows} == set(product(axes[a], axes[b]))
    assert len(set(rows)) == len(rows) <= math.prod(map(len, axes))
    assert rows == all_pairs(*axes)


def test_there_are_hardly_more_rows_than_the_two_longest_axes_need() -> None:
    assert len(all_pairs(range(10), range(6), range(4), range(4), range(3), range(3))) <= 66


def test_equal_values_count_once_and_no_value_is_a_mistake() -> None:
    assert all_pairs("aab", [{}, {"top_k": 2}]) == [
        *(("a", {}), ("a", {"top_k": 2}), ("b", {}), ("b", {"top_k": 2})),
    ]
    with pytest.raises(ValueError, match="without values"):
        all_pairs([1], [])
