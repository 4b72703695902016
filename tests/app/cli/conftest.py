"""The command ``foretoken`` and a small model."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import cli
from engine.loading.discovery.system import System
from tests.support.commands import Command, Result, command
from tests.support.fixtures import adapted, pair

__all__ = ["Foretoken", "Result", "adapted", "pair"]

Foretoken = Command


@pytest.fixture
def foretoken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Foretoken:
    """``foretoken("chat", "Hello", "--depth", 4)``, with a data folder of its own, and no other
    program's models."""
    monkeypatch.setattr(System, "current", lambda: System("linux", tmp_path, {}, tmp_path / "root"))
    return command(cli.main, tmp_path / "data", monkeypatch, capsys)


@pytest.fixture
def model(pair: tuple[Path, Path]) -> Path:
    """A random Llama that is loaded at once."""
    return pair[0]
