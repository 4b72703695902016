"""What cannot be downloaded, and what to do about it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from engine.errors import TokenNeeded
from engine.loading.hub.disk import MODELS_VARIABLE, folder_for, locate
from engine.loading.hub.fetch import download
from engine.loading.specs import ModelSpec
from tests.engine.loading.hub.conftest import SPEC, WEIGHTS, failure
from tests.support.folders import model_files
from tests.support.hub_server import HostedRepository, HubServer


def test_a_gated_model_without_a_token_says_what_to_do(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.gated = True
    message = failure(models)
    assert "needs an access token" in message
    assert f"{server.url}/owner/tiny" in message
    assert "foretoken models token, hf auth login" in message
    assert not any(part in message for part in ("Models page", "`")), "it is shown on that page"


def test_a_refused_token_says_what_to_do(
    server: HubServer, repository: HostedRepository, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    repository.gated = True
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    message = failure(models)
    assert "your access token was refused" in message
    assert "hf_wrong" not in message
    assert not [*models.iterdir()], "it was listed as an unfinished download of 0 B"


def test_the_right_token_opens_a_gated_model(
    server: HubServer, repository: HostedRepository, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    repository.gated = True
    monkeypatch.setenv("HF_TOKEN", repository.token)
    assert locate(SPEC, models) is None
    assert download(SPEC, models) == locate(SPEC, models)


def test_an_unknown_repository(server: HubServer, models: Path) -> None:
    spec = ModelSpec(id="x", name="X", repository="owner/nothing")
    assert "There is no repository owner/nothing" in failure(models, spec)


def test_what_a_mirror_has_not(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.refusals[""] = [(404, None)]
    assert "owner/tiny, or one of its files, is not at" in failure(models)


def test_an_unknown_revision(server: HubServer, models: Path) -> None:
    spec = ModelSpec(id="x", name="X", repository="owner/tiny", revision="v9")
    assert "no revision 'v9'" in failure(models, spec)


def test_pickles_are_never_fetched(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    del repository.files[WEIGHTS]
    del repository.files["consolidated.safetensors"]
    message = failure(models)
    assert "only pickle weights (pytorch_model.bin)" in message
    assert not server.fetched()


def test_a_repository_without_weights(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.files = {"config.json": b"{}", "README.md": b"soon"}
    assert "Choose a repository in transformers layout" in failure(models)


def test_an_index_cannot_write_outside_the_folder(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.files = model_files(shards=2)
    repository.files[f"{WEIGHTS}.index.json"] = b'{"weight_map": {"x": "../../evil.safetensors"}}'
    assert "outside its folder" in failure(models)


@pytest.mark.parametrize(
    "name", [r"LICENSE\..\..\x.bat", "LICENSE:x", "C:x.gguf", r"\x.gguf", "/x.gguf", "../x.gguf"]
)
def test_names_that_lead_out_of_the_folder_on_some_system_are_not_fetched(
    server: HubServer, repository: HostedRepository, models: Path, name: str
) -> None:
    r"""Windows takes ``\\`` for a separator, and ``:`` for the end of a drive."""
    repository.files[name] = b"evil"
    if name.endswith(".gguf"):
        spec = ModelSpec(id="x", name="X", repository="owner/tiny", file=name)
        assert f"{name} is outside its folder" in failure(models, spec)
    else:
        download(SPEC, models)
    assert not any(each.endswith(("x", "x.bat", "x.gguf")) for each in server.fetched())


def test_a_repository_without_a_tokenizer(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    del repository.files["tokenizer.json"]
    assert "the repository has no tokenizer" in failure(models)


def test_a_full_disk_is_told_before_the_weights(
    server: HubServer, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    message = failure(models)
    assert "1 kB are free" in message
    assert MODELS_VARIABLE in message
    assert not server.fetched()


def test_a_disk_that_fills_on_the_way_keeps_what_arrived(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    """The kernel's own answer: the file that the weights go to is /dev/full."""
    digest = hashlib.sha256(repository.files[WEIGHTS]).hexdigest()
    parts = folder_for(SPEC, models) / ".partial"
    parts.mkdir(parents=True)
    (parts / f"{WEIGHTS}.{digest[:40]}.part").symlink_to("/dev/full")
    message = failure(models)
    assert "No space left on device" in message
    assert "Progress is kept" in message and MODELS_VARIABLE in message
    assert (models / "owner--tiny" / "config.json").is_file()
    (parts / f"{WEIGHTS}.{digest[:40]}.part").unlink()
    assert download(SPEC, models)


def test_a_403_without_a_word_asks_for_a_token_too(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.refusals[WEIGHTS] = [(403, None)]
    with pytest.raises(TokenNeeded, match="is gated"):
        download(SPEC, models)
