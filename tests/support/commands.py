"""Running a command as a person would, without a process of its own."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

TREE = functools.cache(typer.main.get_command)
"""Typer makes all commands anew in each run, which takes longer than most of them."""


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


Command = Callable[..., Result]


def command(
    main: Callable[[], object],
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """``main`` as a function of its words, with ``data`` for a data folder."""

    def run(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["it", *map(str, words)])
        monkeypatch.setattr(typer.main, "get_command", TREE)
        monkeypatch.setattr("platformdirs.user_data_dir", lambda *a, **k: str(data))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return run
