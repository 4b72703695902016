"""Models on disk: where they lie, and whether they are whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.loading.hub.disk import folder_for, locate
from engine.loading.hub.fetch import download
from engine.loading.specs import ModelSpec
from tests.engine.loading.hub.conftest import SPEC, WEIGHTS, failure
from tests.support.folders import write_files, write_model
from tests.support.hub_server import COMMIT, HubServer


def test_a_model_put_there_by_hand_is_found(server: HubServer, models: Path) -> None:
    folder = write_model(folder_for(SPEC, models))
    assert locate(SPEC, models) == folder
    assert download(SPEC, models) == folder
    assert not server.seen


def test_a_model_in_the_hub_cache_is_found(server: HubServer, tmp_path: Path, models: Path) -> None:
    cache = tmp_path / "cache" / "models--owner--tiny"
    snapshot = write_model(cache / "snapshots" / COMMIT)
    write_files(cache / "refs", {"main": COMMIT.encode()})
    assert locate(SPEC, models) == snapshot
    (snapshot / WEIGHTS).unlink()
    assert locate(SPEC, models) is None


def test_a_truncated_model_is_not_complete(server: HubServer, models: Path) -> None:
    file = write_model(folder_for(SPEC, models)) / WEIGHTS
    file.write_bytes(file.read_bytes()[:-5])
    assert locate(SPEC, models) is None


def test_other_revisions_have_folders_of_their_own(tmp_path: Path) -> None:
    spec = ModelSpec(id="x", name="X", repository="owner/tiny", revision="v2")
    assert folder_for(spec, tmp_path) == tmp_path / "owner--tiny--v2"
    # It was a folder within others, in which nothing was found after the download.
    nested = folder_for(replace(spec, revision="refs/pr/1"), tmp_path)
    assert nested == tmp_path / "owner--tiny--refs--pr--1"


def test_an_embedded_model_that_is_gone_cannot_be_downloaded(tmp_path: Path, models: Path) -> None:
    spec = ModelSpec(id="pip", name="Pip", path=tmp_path / "absent", shipped=True)
    assert locate(spec, models) is None
    assert "is included with Foretoken" in failure(models, spec)
    own = ModelSpec(id="mine", name="Mine", path=tmp_path / "absent")
    assert f"Mine should be in {tmp_path / 'absent'}, but" in failure(models, own)
    here = ModelSpec(id="pip", name="Pip", path=write_model(tmp_path / "here"))
    assert download(here, models) == tmp_path / "here"
