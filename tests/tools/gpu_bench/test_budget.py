"""What still fits into the time that is left."""

from __future__ import annotations

import pytest

from tools.gpu_bench.budget import QUICKEST, SLOWEST, Budget


class Hours:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_part_that_no_longer_fits_is_refused_with_figures() -> None:
    hours = Hours()
    budget = Budget(60, hours)
    assert budget.refuses(60) is None
    hours.now += 45
    assert budget.refuses(15) is None
    assert budget.refuses(16) == (
        "it would take some 16 s, and 15 s of 1 minutes are left (--minutes)"
    )
    hours.now += 100
    assert "and 0 s of" in (budget.refuses(1) or "")


@pytest.mark.parametrize(("took", "factor"), [(20, 2.0), (5, 0.5), (1000, SLOWEST), (0, QUICKEST)])
def test_estimates_follow_experience_within_bounds(took: float, factor: float) -> None:
    hours = Hours()
    budget = Budget(10_000, hours)

    def work() -> None:
        hours.now += took

    budget.run(10, work)
    assert budget.expected(30) == pytest.approx(30 * factor)


def test_a_part_that_fails_has_taken_its_time_too() -> None:
    hours = Hours()
    budget = Budget(10_000, hours)

    def fails() -> None:
        hours.now += 30
        raise ValueError

    with pytest.raises(ValueError):
        budget.run(10, fails)
    assert budget.expected(10) == pytest.approx(30)
