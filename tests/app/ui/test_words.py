"""Sizes, counts and durations as people write them."""

from __future__ import annotations

import pytest

from app.ui import words


@pytest.mark.parametrize(
    ("number", "told"),
    [(7_500_000, "7.5 M"), (999_885_952, "1 B"), (8_030_261_248, "8.03 B"), (900, "900")],
)
def test_counts_are_short(number, told):
    assert words.count(number) == told


def test_durations_have_minutes_from_a_minute_on():
    assert words.duration(59) == "59 s"
    assert words.duration(125) == "2 min 05 s"


def test_one_page_that_does_not_fit_is_told_as_one():
    assert words.pages_given("Page", "1", 2, "2", True) == (
        "Page 1 of 2; 2 does not fit the context."
    )
    assert words.pages_given("Slide", "1-2", 9, "3-9", True) == (
        "Slides 1-2 of 9; 3-9 do not fit the context."
    )
