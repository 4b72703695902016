"""``foretoken bench peers`` and ``foretoken models export-gguf``."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import pytest

from engine.testing.checkpoints import write_pair
from tests.app.cli.conftest import Foretoken


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What ``--weights`` takes for a random target and its draft."""
    root = tmp_path_factory.mktemp("pair")
    write_pair(root / "target", root / "draft")
    return f"{root / 'target'}::{root / 'draft'}"


@pytest.fixture(autouse=True)
def no_other_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORETOKEN_LLAMA_CPP", "FORETOKEN_VLLM"):
        monkeypatch.delenv(name, raising=False)


def test_who_is_there_is_measured_and_who_is_not_is_told(foretoken: Foretoken, pair: str) -> None:
    words = ("--weights", pair, "--each", 1, "--repeats", 1, "--max-tokens", 6, "--json")
    result = foretoken("bench", "peers", *words)
    assert result.status == 0, result.err
    told = result.last_json
    assert {one["engine"] for one in told["results"]} == {"foretoken", "transformers"}
    assert [one["engine"] for one in told["absent"]] == ["llama.cpp", "vllm"]
    assert "cmake --build" in result.out
    assert (
        result.out.split("\n", 1)[0].split()
        == "engine setting weights tok/s to ours words how".split()
    )


def test_the_random_model_takes_no_prompts(foretoken: Foretoken, tmp_path: Path) -> None:
    result = foretoken("bench", "peers", "--weights", "1b", "--prompts", tmp_path / "p.jsonl")
    assert result.status == 2
    assert "knows no words" in result.err


def test_a_pairs_draft_is_exported(foretoken: Foretoken, pair: str, tmp_path: Path) -> None:
    file = tmp_path / "draft.gguf"
    result = foretoken("models", "export-gguf", pair, "--draft", "-o", file, "--type", "f32")
    assert result.status == 0, result.err
    assert str(file) in result.out
    blocks = gguf.GGUFReader(file).fields["llama.block_count"].contents()
    assert blocks == 1


def test_a_model_without_a_draft_and_a_missing_package_are_told(
    foretoken: Foretoken, pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, file = pair.partition("::")[0], tmp_path / "m.gguf"
    result = foretoken("models", "export-gguf", target, "--draft", "-o", file)
    assert result.status == 2 and "has no draft" in result.err
    monkeypatch.setitem(sys.modules, "gguf", None)
    result = foretoken("models", "export-gguf", target, "-o", file)
    assert result.status == 2 and "pip install gguf" in result.err
