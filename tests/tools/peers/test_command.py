"""``python -m tools.peers``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkpoints import write_pair
from tests.support.commands import Command, command
from tools.peers.__main__ import main


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What ``--weights`` takes for a random target and its draft."""
    root = tmp_path_factory.mktemp("pair")
    write_pair(root / "target", root / "draft")
    return f"{root / 'target'}::{root / 'draft'}"


@pytest.fixture
def peers_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    return command(main, tmp_path / "data", monkeypatch, capsys)


@pytest.fixture(autouse=True)
def no_other_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORETOKEN_LLAMA_CPP", "FORETOKEN_VLLM"):
        monkeypatch.delenv(name, raising=False)


def test_who_is_there_is_measured_and_who_is_not_is_told(peers_command: Command, pair: str) -> None:
    words = ("--weights", pair, "--each", 1, "--repeats", 1, "--max-tokens", 6, "--json")
    result = peers_command(*words)
    assert result.status == 0, result.err
    told = result.last_json
    assert {one["engine"] for one in told["results"]} == {"foretoken", "transformers"}
    assert [one["engine"] for one in told["absent"]] == ["llama.cpp", "vllm"]
    assert "cmake --build" in result.out
    assert (
        result.out.split("\n", 1)[0].split()
        == "engine setting weights tok/s to ours words how".split()
    )


def test_the_random_model_takes_no_prompts(peers_command: Command, tmp_path: Path) -> None:
    result = peers_command("--weights", "1b", "--prompts", tmp_path / "p.jsonl")
    assert result.status == 2
    assert "knows no words" in result.err
