"""``foretoken models export-gguf``."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import pytest

from tests.app.cli.conftest import Foretoken
from tests.support.checkpoints import write_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random target and its draft."""
    root = tmp_path_factory.mktemp("pair")
    write_pair(root / "target", root / "draft")
    return f"{root / 'target'}::{root / 'draft'}"


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
