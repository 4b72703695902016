"""A hub on this machine, with one model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import DownloadError
from engine.loading.hub import errors
from engine.loading.hub.fetch import download
from engine.loading.specs import ModelSpec
from engine.machine.secrets import HUB_TOKEN_FILE
from tests.support.folders import model_files
from tests.support.hub_server import HostedRepository, HubServer

SPEC = ModelSpec(id="tiny", name="Tiny", repository="owner/tiny", licence="mit", bytes=5_000)
WEIGHTS = "model.safetensors"
SMALL = ["config.json", "tokenizer.json", "tokenizer_config.json"]


@pytest.fixture
def files() -> dict[str, bytes]:
    """A model big enough to be cut in the middle, with things that must not be fetched."""
    return {
        **model_files(vocabulary=512, hidden=32),
        "README.md": b"about",
        "pytorch_model.bin": b"pickle",
        "consolidated.safetensors": b"another layout",
        "onnx/model.onnx": b"onnx",
        "training_args.bin": b"pickle",
    }


@pytest.fixture
def repository(files: dict[str, bytes]) -> HostedRepository:
    return HostedRepository(files)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Where downloads go."""
    return tmp_path / "models"


@pytest.fixture
def server(
    repository: HostedRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubServer]:
    with HubServer({"owner/tiny": repository}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setenv(HUB_TOKEN_FILE, str(tmp_path / "own" / "token"))
        monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        monkeypatch.setattr(errors, "BACKOFF_S", 0.01)
        yield running


def failure(models: Path, spec: ModelSpec = SPEC) -> str:
    with pytest.raises(DownloadError) as caught:
        download(spec, models)
    return str(caught.value)
