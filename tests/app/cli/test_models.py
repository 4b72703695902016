"""``foretoken models``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InvalidRequest
from engine.loading.inventory import estimate
from tests.app.cli.conftest import Foretoken
from tests.support.checkpoints import VOCABULARY
from tests.support.model_server import Played, playing


@pytest.fixture(autouse=True)
def empty_models_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORETOKEN_MODELS", str(tmp_path / "models"))


def test_the_list_tells_size_licence_and_what_is_on_disk(foretoken: Foretoken) -> None:
    result = foretoken("models", "list", "--json")
    assert result.status == 0
    models = {model["id"]: model for model in result.last_json["models"]}
    assert {"pip", "pip-draft", "qwen3-0.6b"} <= models.keys()
    assert models["qwen3-0.6b"]["on_disk"] is False
    assert models["qwen3-0.6b"]["licence"] == "apache-2.0"
    assert "pip" in {pair["id"] for pair in result.last_json["pairs"]}
    head = result.out.split("\n", 1)[0]
    assert head.split() == ["model", "parameters", "size", "licence", "on", "disk", "fits", "from"]


def test_the_list_has_models_that_no_load_would_get_here_and_its_own_refusals_are_told(
    foretoken: Foretoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a GPU, a catalog's q4 ended the list, with a KeyError where no command was named."""

    def refuse(*asked: Any, **how: Any) -> Any:
        if how:  # of main memory alone, by which files are chosen
            return estimate(*asked, **how)
        raise InvalidRequest("quantization", "quantization is 'q4', but it is not here.")

    monkeypatch.setattr("engine.loading.inventory.estimate", refuse)
    result = foretoken("models")
    assert result.status == 0 and "qwen3-0.6b" in result.out
    monkeypatch.setattr("app.cli.models.found.inventory_in", refuse)
    result = foretoken("models")
    assert result.status == 2 and "quantization is 'q4', but it is not here." in result.err


def test_a_broken_catalog_of_ones_own_is_told_and_the_rest_goes_on(
    foretoken: Foretoken, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "model_catalog.yaml").write_text("models: [\n")
    result = foretoken("models", "list", "--data-dir", tmp_path / "own")
    assert result.status == 0
    assert "pip" in result.out
    assert "model_catalog.yaml" in caplog.text


def test_a_folder_is_checked(foretoken: Foretoken, model: Path) -> None:
    result = foretoken("models", "check", model, "--json")
    assert result.status == 0
    assert result.last_json["vocabulary"] == VOCABULARY
    assert result.last_json["fits"] is True
    assert "LlamaForCausalLM" in result.out


def test_a_model_does_not_steer_the_terminal(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    own = shutil.copytree(model, tmp_path / "own")
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**config, "architectures": ["Own\x1b[2J"]}))
    assert "Own?[2J" in foretoken("models", "check", own).out


def test_a_folder_without_a_model_is_told(foretoken: Foretoken, tmp_path: Path) -> None:
    result = foretoken("models", "check", tmp_path)
    assert result.status == 2
    assert str(tmp_path) in result.err


def test_why_names_both_vocabularies(foretoken: Foretoken) -> None:
    result = foretoken("models", "why", "llama-3.1-8b", "qwen3-0.6b")
    assert result.status == 1
    assert "128,256" in result.out
    assert "151," in result.out


def test_why_says_how_a_draft_with_another_vocabulary_drafts(
    foretoken: Foretoken, model: Path
) -> None:
    result = foretoken("models", "why", "pip", model)
    assert result.status == 0
    shared = f"% of the target's 4,096 tokens are among the draft's {VOCABULARY}"
    assert shared in result.out
    assert "different vocabulary" in result.out and "the target's tokens" in result.out


@pytest.mark.parametrize("pair", [("http://127.0.0.1:9", "pip"), ("pip", "http://127.0.0.1:9")])
def test_why_says_that_a_server_drafts_for_itself(
    foretoken: Foretoken, pair: tuple[str, str]
) -> None:
    """Its files were said to be missing."""
    result = foretoken("models", "why", *pair)
    assert result.status == 1
    assert "127.0.0.1:9 runs on a server; a draft must run on the machine of its" in result.out


def test_why_says_when_a_draft_fits(foretoken: Foretoken) -> None:
    result = foretoken("models", "why", "qwen3-8b", "qwen3-0.6b")
    assert result.status == 0
    assert "can draft for" in result.out


def test_an_unknown_model_cannot_be_downloaded(foretoken: Foretoken) -> None:
    result = foretoken("models", "download", "qwen3-0.6c")
    assert result.status == 2
    assert "Did you mean 'qwen3-0.6b'?" in result.err


def test_offline_a_download_says_how_to_go_on(
    foretoken: Foretoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = foretoken("models", "download", "qwen3-0.6b")
    assert result.status == 2
    assert "http://127.0.0.1:9 cannot be reached" in result.err


def test_a_server_does_not_steer_the_terminal(foretoken: Foretoken) -> None:
    models = tuple({"id": each, "owned_by": "vllm"} for each in ("\x1b]0;x\x07evil", "small"))
    with playing(Played(models, {"/version": {"version": "1\x1b[2J"}})) as played:
        found = foretoken("models", "connect", played.url, "--no-keep")
    assert "[2J answers" in found.out and "small" in found.out
    assert not any(each in found.out + found.err for each in "\x1b\x07")


@pytest.mark.parametrize("keep", ["--keep", "--no-keep"])
def test_a_server_without_models_or_that_one_cannot_be_connected_to(
    foretoken: Foretoken, keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    with playing(Played(models=())) as played:
        found = foretoken("models", "connect", played.url, keep)
    assert found.status != 0 and "No models found there. Load one there first" in found.err
    with playing(Played()) as played:
        found = foretoken("models", "connect", f"{played.url}#large", keep)
        assert foretoken("models", "connect", f"{played.url}#small", "--no-keep").status == 0
    assert found.status != 0 and "has no model 'large'" in found.err
