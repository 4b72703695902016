"""No network: how to get the files otherwise."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import DownloadError
from engine.loading.hub import errors
from engine.loading.hub.disk import folder_for, locate
from engine.loading.hub.fetch import download
from engine.loading.hub.repository import look_up
from tests.engine.loading.hub.conftest import SPEC, failure
from tests.support.hub_server import HostedRepository, HubServer


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_without_a_network_the_message_says_how_to_get_the_files(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    message = failure(models)
    assert "cannot be reached" in message
    assert "hf download owner/tiny" in message
    assert str(tmp_path / "models" / "owner--tiny") in message
    assert "5 kB" in message


def test_the_command_in_that_message_works(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    client = Path(sys.executable).with_name("hf")
    if not client.exists():
        pytest.skip("the hf command is not in this environment")
    online = server.url
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    command = shlex.split(failure(models).splitlines()[1])
    monkeypatch.setenv("HF_ENDPOINT", online)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert not folder_for(SPEC, models).exists()
    subprocess.run([str(client), *command[1:]], cwd=models, check=True)
    assert locate(SPEC, models) == folder_for(SPEC, models)
    assert not (folder_for(SPEC, models) / "pytorch_model.bin").exists()


def test_offline_mode_is_named_as_the_cause(
    server: HubServer, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in failure(models)
    assert not server.seen


def test_the_network_may_go_in_the_middle(
    server: HubServer, repository: HostedRepository, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    monkeypatch.setattr(errors, "ATTEMPTS", 2)
    repository.breaks["config.json"] = [100] + [0] * 50
    assert "progress is kept" in failure(models)
    repository.breaks.clear()
    assert download(SPEC, models)


@pytest.mark.parametrize(
    ("repository", "wanted"),
    [("maker/Tale-1B-GGUF", "*Q4_K_M*.gguf"), ("maker/Tale-1B", "model*.safetensors")],
)
def test_a_look_up_without_a_network_says_what_to_fetch_of_such_a_repository_and_where_to_put_it(
    repository: str, wanted: str, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    """For GGUF files it told to fetch safetensors, which brings no weights, and named no place."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError) as failed:
        look_up(repository, models)
    said = str(failed.value)
    assert f"the contents of {repository} are unknown" in said
    assert f"hf download {repository} " in said and f'--include "{wanted}"' in said
    assert said.endswith(f"copy that folder to {models / repository.replace('/', '--')}")
