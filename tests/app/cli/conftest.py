"""Running a command as a person would, without a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app import cli

STORIES = Path(__file__).resolve().parents[4] / "shared" / "models" / "stories260K"


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def last_json(self) -> dict[str, Any]:
        """The object in the last line."""
        value: dict[str, Any] = json.loads(self.out.rstrip("\n").rsplit("\n", 1)[-1])
        return value


Foretoken = Callable[..., Result]


@pytest.fixture
def foretoken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Foretoken:
    """``foretoken("chat", "Hello", "--depth", 4)``, with a data folder of its own."""

    def run(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["foretoken", *map(str, words)])
        monkeypatch.setattr("platformdirs.user_data_dir", lambda *a, **k: str(tmp_path / "data"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def stories() -> Path:
    """A very small Llama, which lies beside the repository where the project is developed."""
    if not STORIES.is_dir():
        pytest.skip("the small model ../shared/models/stories260K is not here")
    return STORIES
