"""Shipped files, and the data folder."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from app import paths
from app.runtime import create_runtime
from engine.api import LoadRequest
from engine.errors import ForetokenError
from engine.loading.hub.disk import MODELS_VARIABLE, models_folder


def test_shipped_files_stand_beside_the_packages() -> None:
    root = paths.shipped()
    assert (root / "pyproject.toml").is_file()
    assert paths.catalog_file().parent == root
    assert paths.assets() == root / "assets"


def test_the_data_folder_is_made_where_it_was_asked_for(tmp_path: Path) -> None:
    folder = paths.data_folder(tmp_path / "a" / "b")
    assert folder == (tmp_path / "a" / "b").resolve()
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_the_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    made = paths.data_folder(tmp_path / "data")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    assert stat.S_IMODE(paths.data_folder(shared).stat().st_mode) == 0o755  # whose it is decides


def test_the_data_folder_has_a_place_of_its_own_on_this_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *a, **k: str(tmp_path / "place"))
    assert paths.data_folder() == (tmp_path / "place").resolve()


def test_a_data_folder_that_is_a_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ForetokenError, match="--data-dir"):
        paths.data_folder(file)


def test_models_lie_in_the_data_folder_unless_somebody_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program reads the variable and never sets it: one app's folder would be the next one's."""
    monkeypatch.delenv(MODELS_VARIABLE, raising=False)
    for name in ("one", "other"):
        folder = paths.data_folder(tmp_path / name)
        with contextlib.closing(create_runtime(folder, LoadRequest(target=""))) as runtime:
            assert runtime.models == folder / "models"
    monkeypatch.setenv(MODELS_VARIABLE, str(tmp_path / "elsewhere"))
    assert models_folder(folder) == tmp_path / "elsewhere"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ForetokenError, match="--data-dir"):
        paths.data_folder(tmp_path)
