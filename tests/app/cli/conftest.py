"""The command ``foretoken`` and a small model."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import cli
from tests.support.commands import Command, Result, command
from tests.support.places import beside

__all__ = ["Foretoken", "Result"]

Foretoken = Command


@pytest.fixture
def foretoken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Foretoken:
    """``foretoken("chat", "Hello", "--depth", 4)``, with a data folder of its own."""
    return command(cli.main, tmp_path / "data", monkeypatch, capsys)


@pytest.fixture
def stories() -> Path:
    """A very small Llama, which lies beside the repository where the project is developed."""
    return beside("stories260K")
