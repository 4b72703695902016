"""``foretoken models``: repositories, the token, the disk and the memory, as the Models page has them."""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from keyring.backends import fail, null

from engine.loading.hub.repository import look_up
from engine.machine.secrets import HUB_TOKEN_FILE
from tests.app.cli.conftest import Foretoken
from tests.support.folders import model_files
from tests.support.hub_server import HostedRepository, HubServer


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A repository in transformers' layout, and one of two GGUF files."""
    files = {"Tale-Q4_K_M.gguf": bytes(4000), "Tale-Q8_0.gguf": bytes(8000)}
    hosted = {
        "owner/tiny": HostedRepository(model_files(vocabulary=512, hidden=32)),
        "maker/Tale-GGUF": HostedRepository(files),
    }
    with HubServer(hosted) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("FORETOKEN_MODELS", str(tmp_path / "models"))
        monkeypatch.setenv(HUB_TOKEN_FILE, str(tmp_path / "token"))
        monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield running


def test_the_hub_is_searched_and_the_catalog_compared_with_it(
    foretoken: Foretoken, server: HubServer, tmp_path: Path
) -> None:
    found = foretoken("models", "search", "tale", "gguf", "--json", "--data-dir", tmp_path / "own")
    assert "foretoken models look-up maker/Tale-GGUF" in found.out
    assert found.last_json["repositories"] == [
        {"name": "maker/Tale-GGUF", "downloads": 0, "likes": 0, "gated": False}
    ]
    assert "Try fewer words" in foretoken("models", "search", "novel").out
    name = "unsloth/Qwen3.5-4B-MTP-GGUF"
    server.repositories[name] = HostedRepository({"Qwen3.5-4B-Q4_K_M.gguf": bytes(4000)})
    compared = foretoken("models", "check-catalog")
    assert compared.status == 1
    assert (
        "qwen3.5-4b:Q4_K_M: unsloth/Qwen3.5-4B-MTP-GGUF has 4,000 bytes there, not" in compared.out
    )
    assert f"qwen3.5-4b:Q4_K_XL: {name} has no Qwen3.5-4B-UD-Q4_K_XL.gguf." in compared.out
    assert "There is no repository nvidia/DeepSeek-R1-FP4" in compared.out  # for launch plans


def test_a_repository_is_looked_up_downloaded_listed_and_deleted(
    foretoken: Foretoken, server: HubServer, tmp_path: Path
) -> None:
    told = foretoken("models", "look-up", "maker/Tale-GGUF", "--json")
    assert told.status == 0
    assert [each["file"] for each in told.last_json["models"]] == [
        "Tale-Q4_K_M.gguf",
        "Tale-Q8_0.gguf",
    ]
    several = foretoken("models", "download", "maker/Tale-GGUF")
    assert several.status == 2
    assert "Choose one with --file: Tale-Q4_K_M.gguf, Tale-Q8_0.gguf" in several.err
    foretoken("models", "download", "maker/Tale-GGUF", "--file", "Tale-Q4_K_M.gguf")
    assert foretoken("models", "download", "owner/tiny").status == 0
    listed = foretoken("models", "disk", "--json").last_json["kept"]
    assert [each["name"] for each in listed] == ["owner/tiny", "maker/Tale-GGUF/Tale-Q4_K_M"]
    gone = foretoken("models", "delete", "maker/Tale-GGUF/Tale-Q4_K_M", "--yes")
    assert gone.out == "Freed 4 kB.\n"
    refused = foretoken("models", "delete", str(tmp_path), "--yes")
    assert refused.status == 2 and "Downloads: owner/tiny." in refused.err
    assert look_up("owner/tiny").choices
    assert (tmp_path / "models" / "owner--tiny" / "model.safetensors").is_file()


@pytest.mark.parametrize("backend", [fail.Keyring, null.Keyring])
def test_the_token_is_read_from_standard_input_and_forgotten(
    backend: type,
    foretoken: Foretoken,
    server: HubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the keyring is turned off: it takes a token without a word, and keeps nothing."""
    monkeypatch.setattr("keyring.core._keyring_backend", backend())
    monkeypatch.setattr("sys.stdin", io.StringIO("hf_mine\n"))
    kept = foretoken("models", "token")
    assert "no keyring" in kept.out and str(tmp_path / "token") in kept.out
    assert "hf_mine" not in kept.out
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert foretoken("models", "token", "--forget").out == "Token deleted.\n"
    assert not (tmp_path / "token").exists()


def test_the_memory_of_a_pair_is_told_part_by_part(foretoken: Foretoken) -> None:
    told = foretoken("models", "fit", "pip", "--context", 512, "--json")
    assert told.status == 0
    facts = told.last_json
    assert (facts["context"], facts["roles"][:2]) == (512, ["target", "draft"])
    assert facts["needed"] == facts["weights"] + facts["kv"] + facts["work"]
    much = foretoken("models", "fit", "pip", "--context", 5000)
    assert "The context is 1,024 tokens, not 5,000: the model has no more." in much.out
    away = foretoken("models", "fit", "qwen3-8b")
    assert re.search(r"With [\d,]+ tokens of context, weights as in the file: ", away.out)
