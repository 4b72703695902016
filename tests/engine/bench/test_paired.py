"""What pairs tell of a ratio: the range keeps its promise, and no verdict comes of chance too often."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench.reports.paired import FIRST_ERROR, PAIRS, allowed_error, estimate, missing

ratios = st.lists(st.floats(0.05, 20, allow_nan=False), min_size=1, max_size=40)


@given(ratios, st.randoms())
def test_the_range_holds_the_median_whatever_the_order(
    found: list[float], chance: random.Random
) -> None:
    made = estimate(found)
    assert made.median == median(found)
    assert min(found) <= made.low <= made.median <= made.high <= max(found)
    chance.shuffle(found)
    again = estimate(found)
    assert (again.low, again.high, again.favours) == (made.low, made.high, made.favours)


@given(ratios)
def test_the_other_way_round_the_verdict_is_the_opposite(found: list[float]) -> None:
    made, turned = estimate(found), estimate([1 / ratio for ratio in found])
    assert turned.favours == -made.favours
    assert turned.low == pytest.approx(1 / made.high)
    if made.favours:
        assert turned.agreeing == made.agreeing


def test_five_pairs_range_from_the_least_to_the_most() -> None:
    made = estimate([1.4, 1.6, 1.5, 1.45, 1.55])
    assert (made.low, made.high, made.median) == (1.4, 1.6, 1.5)
    assert made.level == 1 - FIRST_ERROR == 0.9375
    assert (made.favours, made.agreeing) == (1, 5)
    slower = estimate([0.7, 0.6, 0.8, 0.75, 0.65])
    assert (slower.favours, slower.agreeing) == (-1, 5)
    assert estimate([1.4, 1.6, 1.5, 1.45, 0.99]).favours == 0
    assert estimate([1.4, 1.6, 1.5, 1.45, 1.0]).favours == 0


@pytest.mark.parametrize("count", range(1, PAIRS))
def test_fewer_pairs_give_no_verdict(count: int) -> None:
    made = estimate([2.0] * count)
    assert not made.enough
    assert made.favours == 0


def test_one_wild_pair_of_ten_hinders_no_verdict() -> None:
    made = estimate([1.5, 1.6, 1.4, 1.5, 1.5, 1.6, 1.4, 1.5, 1.5, 0.3])
    assert (made.favours, made.agreeing) == (1, 9)
    assert made.level == pytest.approx(1 - 2 * 11 / 1024)


@pytest.mark.parametrize("count", range(PAIRS, 41))
def test_each_look_is_as_sure_as_it_must_be_and_no_wider_than_that(count: int) -> None:
    made = estimate([float(at) for at in range(1, count + 1)])
    k = int(made.low)
    assert made.level == 1 - missing(count, k)
    assert missing(count, k) <= allowed_error(count) < missing(count, k + 1)


def test_the_errors_of_all_looks_together_stay_below_one_in_eight() -> None:
    assert sum(allowed_error(PAIRS * look) for look in range(1, 60)) <= 0.125


NOISES: dict[str, Callable[[random.Random], float]] = {
    "even": lambda chance: chance.lognormvariate(0, 0.05),
    "heavy": lambda chance: chance.lognormvariate(0, 0.4 if chance.random() < 0.2 else 0.02),
    "skewed": lambda chance: 2 ** (chance.expovariate(1.0) - 1),
}
"""Ratios whose true median is 1. The last one's mean is far from it."""


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [5, 10, 15])
def test_the_range_leaves_the_true_median_out_as_seldom_as_it_says(noise: str, count: int) -> None:
    chance, draw = random.Random(16 + count), NOISES[noise]
    centre = 2 ** (0.6931471805599453 - 1) if noise == "skewed" else 1.0
    trials = 1500
    missed = 0
    for _ in range(trials):
        made = estimate([draw(chance) for _ in range(count)])
        missed += not made.low <= centre <= made.high
    expected = 1 - made.level
    assert missed / trials == pytest.approx(expected, abs=4 * (expected / trials) ** 0.5)


def test_who_looks_again_and_again_is_misled_less_than_one_time_in_eight() -> None:
    """Two that are equally fast, and eight looks until there is a verdict."""
    chance, trials, misled, once = random.Random(7), 1000, 0, 0
    for _ in range(trials):
        found: list[float] = []
        for look in range(8):
            found += [NOISES["heavy"](chance) for _ in range(PAIRS)]
            if estimate(found).leans:
                misled += 1
                once += look == 0
                break
    assert once / trials == pytest.approx(FIRST_ERROR, abs=0.03)
    assert misled / trials < 0.125


def test_a_real_difference_is_found() -> None:
    """1.3x in a noise where a single pair is below 1x in one of ten."""
    chance, found = random.Random(3), 0
    for _ in range(100):
        pairs = [1.3 * chance.lognormvariate(0, 0.2) for _ in range(4 * PAIRS)]
        found += any(estimate(pairs[: PAIRS * look]).leans == 1 for look in range(1, 5))
        assert all(estimate(pairs[: PAIRS * look]).leans >= 0 for look in range(1, 5))
    assert found > 80


def test_another_sitting_agrees_with_a_winner() -> None:
    """It was 1.2x once and too close to call the next time: a range knows nothing of other sittings.

    A third of the methods are as fast as no drafting, and each sitting changes their speed by 3 %."""
    chance = random.Random(5)
    verdicts = {"leans": [0, 0, 0], "favours": [0, 0, 0]}
    for _ in range(2000):
        true = chance.choice((0.0, chance.gauss(0, 0.1), chance.gauss(0, 0.3)))
        one, other = (
            estimate([exp(true + sitting) * NOISES["even"](chance) for _ in range(2 * PAIRS)])
            for sitting in (chance.gauss(0, 0.03), chance.gauss(0, 0.03))
        )
        for rule, counts in verdicts.items():
            if told := getattr(one, rule):
                counts[0] += 1
                counts[1] += other.leans == told
                counts[2] += told * true <= 0
    said, agree, wrong = verdicts["favours"]
    assert said > 500 and agree > 0.95 * said and wrong < 0.02 * said
    said, agree, wrong = verdicts["leans"]
    assert agree < 0.85 * said and wrong > 0.1 * said
