"""``python -m tools.pip``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support.commands import Command, command
from tools.pip import exam
from tools.pip.__main__ import main


@pytest.fixture
def pip_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    return command(main, tmp_path / "data", monkeypatch, capsys)


def test_an_unknown_stage_is_told(pip_command: Command) -> None:
    result = pip_command("train", "--stage", "dessert")
    assert result.status == 2
    assert "tokenizer, target, draft" in result.err


def test_a_missing_recipe_is_told(pip_command: Command, tmp_path: Path) -> None:
    result = pip_command("train", tmp_path / "no.yaml", "--data", tmp_path, "--out", tmp_path)
    assert result.status == 2
    assert "cannot be read" in result.err


def test_missing_data_is_told(pip_command: Command, tmp_path: Path) -> None:
    result = pip_command("train", "--data", tmp_path / "absent", "--out", tmp_path / "out")
    assert result.status == 2
    assert "absent" in result.err


def test_a_pair_is_graded(
    pip_command: Command, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = exam.questions(per_kind=1, seed=3)[-4:]
    monkeypatch.setattr(exam, "questions", lambda count, seed: asked)
    monkeypatch.setattr(exam, "run", partial(exam.run, max_tokens=4))
    words = ("--pair", "::".join(map(str, pair)), "--no-misses", "--no-native", "--json")
    result = pip_command("exam", *words)
    assert result.status == 0, result.err
    assert result.out.startswith("kind")
    assert sum(row["asked"] for row in result.last_json["results"]) == len(asked)
