"""What a round takes besides the models: every part is counted once, and the models' own steps never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.events import Emitted, Event
from tests.support.commands import command
from tests.support.places import PIP
from tools import overhead
from tools.overhead import Setting, SuccessorModel
from tools.running import run_command

SETTINGS = (Setting("none", None), Setting("ngram", 4), Setting("draft", 4))


def run(read: overhead.Reader, settings: tuple[Setting, ...] = SETTINGS) -> list[overhead.Row]:
    return overhead.run(PIP / "target", lambda: read, settings=settings, tokens=16, repeats=1)


def test_each_setting_drafts_as_deep_as_it_says_and_is_always_right() -> None:
    seen: list[Event] = []
    rows = run(seen.append)
    assert [(row.proposer, row.rounds, row.tokens_per_round) for row in rows] == [
        ("none", 16, 1.0),
        ("ngram", 4, 4.0),  # 5, 5, 5 and the last token alone
        ("draft", 4, 4.0),
    ]
    emitted = [event for event in seen if isinstance(event, Emitted)]
    assert len(emitted) == 2 * sum(row.rounds for row in rows)  # the replies that warm up, too


def test_a_models_step_is_left_out_and_a_reader_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only these two move on."""
    now = 0.0

    def forward(self: SuccessorModel, *given: Any, **named: Any) -> Tensor:
        nonlocal now
        now, self.seconds = now + 1.0, self.seconds + 1.0
        return answer(self, *given, **named)

    def read(event: Event) -> None:
        nonlocal now
        now += 2.0

    answer = SuccessorModel.forward
    monkeypatch.setattr(SuccessorModel, "forward", forward)
    for module in (
        "tools.overhead",
        "engine.decoding.loop",
        "engine.decoding.host",
        "engine.decoding.work",
    ):
        monkeypatch.setattr(f"{module}.perf_counter", lambda: now)
    for row in run(read):
        assert (row.propose, row.judge, row.events, row.door, row.read) == (0, 0, 0, 0, 2e6)
        assert row.total == 2e6


def test_every_part_is_measured() -> None:
    for row in run(lambda event: None):
        parts = (row.propose, row.judge, row.events, row.door, row.read)
        assert all(part > 0 for part in parts), row
        assert row.total == pytest.approx(sum(parts))


def test_json_has_the_total() -> None:
    row = overhead.Row("none", None, 2, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    value = json.loads(json.dumps(overhead.as_json([row])))
    assert value["results"][0]["total"] == 15.0


def test_the_command_prints_a_table_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure = command(lambda: run_command(overhead.measure), tmp_path, monkeypatch, capsys)
    result = measure("--max-tokens", 16, "--repeats", 1, "--json")
    assert result.status == 0, result.err
    assert "Microseconds a round" in result.out
    rows = result.last_json["results"]
    assert {row["proposer"] for row in rows} == {"none", "ngram", "suffix", "draft"}
    assert all(row["total"] > row["read"] > 0 for row in rows)
