"""Sizes, counts and durations as people write them."""

from __future__ import annotations

import pytest

from app.ui.words import Words, count


@pytest.mark.parametrize(
    ("number", "told"),
    [(7_500_000, "7.5 M"), (999_885_952, "1 B"), (8_030_261_248, "8.03 B"), (900, "900")],
)
def test_counts_are_short(number, told):
    assert count(number) == told


def test_durations_have_minutes_from_a_minute_on():
    assert Words.duration(59) == "59 s"
    assert Words.duration(125) == "2 min 05 s"
