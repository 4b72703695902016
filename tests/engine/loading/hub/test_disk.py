"""What downloads take, and that nothing else is ever deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import InvalidRequest
from engine.loading.hub import disk
from engine.loading.specs import ModelSpec
from tests.support.folders import write_model


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A model in a folder, two GGUF files of one repository (one in two parts), and half a model."""
    root = tmp_path / "models"
    write_model(root / "owner--whole")
    files = root / "maker--Tale-GGUF"
    files.mkdir()
    for name, size in (
        ("a.gguf", 3000),
        ("b-00001-of-00002.gguf", 10),
        ("b-00002-of-00002.gguf", 20),
    ):
        (files / name).write_bytes(bytes(size))
    (files / ".lock").touch()
    half = root / "owner--half" / ".partial"
    half.mkdir(parents=True)
    (half / "model.safetensors.x.part").write_bytes(bytes(500))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "model.safetensors").write_bytes(b"mine")
    (root / "linked").symlink_to(tmp_path / "precious")
    return root


def test_everything_is_told_with_what_it_takes(models: Path) -> None:
    told = {one.name: (one.bytes, one.unfinished) for one in disk.downloaded(models)}
    assert told["maker/Tale-GGUF/a"] == (3000, False)
    assert told["maker/Tale-GGUF/b"] == (30, False)
    assert told["owner/half"] == (500, True)
    assert told["owner/whole"][0] > 0 and not told["owner/whole"][1]
    assert told["linked"] == (0, False)
    assert disk.downloaded(models / "none") == ()
    assert disk.free_bytes(models / "none" / "deeper") > 0


def test_one_is_deleted_and_the_others_stay(models: Path, tmp_path: Path) -> None:
    split = models / "maker--Tale-GGUF" / "b-00001-of-00002.gguf"
    assert disk.delete(models, split, ()) == 30
    assert [path.name for path in split.parent.glob("*.gguf")] == ["a.gguf"]
    disk.delete(models, split.parent / "a.gguf", ())
    assert not split.parent.exists()
    disk.delete(models, models / "owner--half", ())
    disk.delete(models, models / "linked", ())
    assert (tmp_path / "precious" / "model.safetensors").read_bytes() == b"mine"
    assert [one.name for one in disk.downloaded(models)] == ["owner/whole"]


def test_nothing_outside_is_deleted_whatever_is_asked(models: Path, tmp_path: Path) -> None:
    for path in (
        tmp_path / "precious",
        models,
        models / "..",
        models / "owner--whole" / ".." / ".." / "precious",
        models / "linked" / "model.safetensors",
        models / "owner--whole" / "config.json",
    ):
        with pytest.raises(InvalidRequest, match="not one of the downloads"):
            disk.delete(models, path, ())
    assert (tmp_path / "precious" / "model.safetensors").is_file()
    assert (models / "owner--whole" / "config.json").is_file()


def test_of_a_file_that_was_thrown_away_nothing_is_left(models: Path) -> None:
    """Its licence and its notes stayed, and were listed as an unfinished model."""
    files = models / "maker--Tale-GGUF"
    (files / "LICENSE").write_text("free")
    partial = files / ".partial"
    partial.mkdir()
    named = ModelSpec(id="", name="", repository="maker/Tale-GGUF", file="c.gguf")
    other = replace(named, file="d.gguf")
    for name in ("c.gguf", "d.gguf"):
        (partial / f"{name}.x.part").touch()
        (partial / "LICENSE.version").touch()
    disk.discard(named, models)
    assert [one.name for one in files.glob("*.gguf")] and [*partial.glob("d.*")]
    for file in files.glob("*.gguf"):
        file.unlink()
    disk.discard(other, models)
    assert not files.exists()


def test_what_is_in_use_stays(models: Path) -> None:
    whole, part = models / "owner--whole", models / "maker--Tale-GGUF" / "a.gguf"
    for path, used in ((whole, whole), (part, part), (whole, whole / ".partial" / "any")):
        with pytest.raises(InvalidRequest, match="is in use"):
            disk.delete(models, path, (used,))
        assert path.exists()


def test_packed_weights_of_what_is_deleted_go(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "of nothing.weights").write_bytes(b"no table")
    monkeypatch.setattr(disk.cache, "folder", lambda: packed)
    disk.delete(models, models / "maker--Tale-GGUF" / "a.gguf", ())
    assert list(packed.iterdir()) == []
