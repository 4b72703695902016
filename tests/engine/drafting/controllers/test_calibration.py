"""What a proposer says of its tokens, and what comes true of it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.controllers.proposer_statistics import Calibration


@given(st.floats(0.3, 3.5), st.lists(st.floats(0.3, 0.98), min_size=3, max_size=8, unique=True))
def test_a_proposers_word_is_taken_for_what_it_is_worth(power: float, stated: list[float]) -> None:
    calibration, chance = Calibration(), random.Random(5)
    for _ in range(400):
        accepted = 0
        while accepted < len(stated) and chance.random() < stated[accepted] ** power:
            accepted += 1
        calibration.learn(stated[: accepted + 1], accepted)
    # It compares means, so tokens of very different probabilities are corrected less well.
    assert power / 3 < calibration.power < 3 * power


def test_a_proposer_that_is_never_right_is_not_asked_for_the_impossible() -> None:
    calibration = Calibration()
    for _ in range(100):
        calibration.learn([1.0], 0)
    assert 1 <= calibration.power <= 4


@given(st.floats(0.01, 0.99), st.integers(0, 8))
def test_what_is_said_of_a_chance_means_that_chance(chance: float, accepted: int) -> None:
    calibration = Calibration()
    assert calibration.stated(chance) == pytest.approx(chance)
    calibration.learn([0.9] * 8, accepted)
    assert calibration.stated(chance) ** calibration.power == pytest.approx(chance)
