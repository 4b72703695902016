"""What verifying takes, stored from one start to the next."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.drafting.controllers.stored_times import MAX_AGE_S, StoredTimes
from engine.drafting.controllers.times import Times
from engine.drafting.controllers.warm_up import ROWS, warm_up
from tests.support.fakes import TableModel

SECONDS = {rows: 0.001 * (10 + rows) for rows in ROWS}


@pytest.fixture
def stored(tmp_path: Path) -> StoredTimes:
    return StoredTimes(tmp_path / "measured" / "model.json", "int8, 2 threads", lambda: 1000.0)


def test_they_count_for_a_day_and_for_the_same_way(stored: StoredTimes) -> None:
    assert stored.read() == {}
    stored.write(SECONDS)
    assert stored.read() == SECONDS
    assert replace(stored, setup="int8, 1 threads").read() == {}
    for now in (999.0, 1000 + MAX_AGE_S):  # a clock that was set back, too
        assert replace(stored, now=lambda now=now: now).read() == {}
    assert [each.name for each in stored.file.parent.iterdir()] == ["model.json"]


@pytest.mark.parametrize(
    "edit",
    [
        {"seconds": {"1": "soon"}}, {"seconds": {"1": -1.0}}, {"seconds": {"1": float("nan")}},
        {"seconds": {"0": 1.0}}, {"seconds": None}, {"seconds": [1.0]}, {"measured": None},
    ],
)  # fmt: skip
def test_what_was_damaged_is_measured_anew(stored: StoredTimes, edit: dict[str, object]) -> None:
    stored.write(SECONDS)
    stored.file.write_text(json.dumps({**json.loads(stored.file.read_text()), **edit}))
    assert stored.read() == {}
    for text in ("", "[]", '{"setup": "int8', "\0"):
        stored.file.write_text(text)
        assert stored.read() == {}


def test_a_place_that_cannot_be_written_costs_nothing_but_time(stored: StoredTimes) -> None:
    stored.file.parent.write_text("a file where the folder should be")
    verify = Times(proportional=False)
    warm_up(model(), verify, stored=stored)
    assert verify.known


def test_a_model_whose_times_are_kept_computes_nothing(stored: StoredTimes) -> None:
    stored.write(SECONDS)
    verify, still = Times(proportional=False), model()
    warm_up(still, verify, stored=stored)
    assert {rows: verify(rows) for rows in ROWS} == SECONDS
    assert not still.fed


def model() -> TableModel:
    return TableModel(lambda tokens: [0.0, 0.0], 2, context=64)
