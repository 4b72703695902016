"""What verifying takes, kept from one start to the next."""

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
def kept(tmp_path: Path) -> StoredTimes:
    return StoredTimes(tmp_path / "measured" / "model.json", "int8, 2 threads", lambda: 1000.0)


def test_they_count_for_a_day_and_for_the_same_way(kept: StoredTimes) -> None:
    assert kept.read() == {}
    kept.write(SECONDS)
    assert kept.read() == SECONDS
    assert replace(kept, way="int8, 1 threads").read() == {}
    for now in (999.0, 1000 + MAX_AGE_S):  # a clock that was set back, too
        assert replace(kept, now=lambda now=now: now).read() == {}
    assert [each.name for each in kept.file.parent.iterdir()] == ["model.json"]


@pytest.mark.parametrize(
    "edit",
    [
        {"seconds": {"1": "soon"}}, {"seconds": {"1": -1.0}}, {"seconds": {"1": float("nan")}},
        {"seconds": {"0": 1.0}}, {"seconds": None}, {"seconds": [1.0]}, {"measured": None},
    ],
)  # fmt: skip
def test_what_was_damaged_is_measured_anew(kept: StoredTimes, edit: dict[str, object]) -> None:
    kept.write(SECONDS)
    kept.file.write_text(json.dumps({**json.loads(kept.file.read_text()), **edit}))
    assert kept.read() == {}
    for text in ("", "[]", '{"way": "int8', "\0"):
        kept.file.write_text(text)
        assert kept.read() == {}


def test_a_place_that_cannot_be_written_costs_nothing_but_time(kept: StoredTimes) -> None:
    kept.file.parent.write_text("a file where the folder should be")
    verify = Times(proportional=False)
    warm_up(model(), verify, kept=kept)
    assert verify.known


def test_a_model_whose_times_are_kept_computes_nothing(kept: StoredTimes) -> None:
    kept.write(SECONDS)
    verify, still = Times(proportional=False), model()
    warm_up(still, verify, kept=kept)
    assert {rows: verify(rows) for rows in ROWS} == SECONDS
    assert not still.fed


def model() -> TableModel:
    return TableModel(lambda tokens: [0.0, 0.0], 2, context=64)
