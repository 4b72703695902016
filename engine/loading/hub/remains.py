"""What of a download lies here before it is complete: how much, and how to be rid of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.loading.hub.places import folder_for, locate
from engine.loading.specs import ModelSpec
from engine.models.checkpoints.gguf.description import SUFFIX, parts_named

PARTIAL = ".partial"
"""The folder, in a model's own, where files wait until all their bytes are there."""


def flat(name: str) -> str:
    """A file's name without folders, as what there is of it is named in ``PARTIAL``."""
    return name.replace("/", "--")


def arrived(spec: ModelSpec, models: Path) -> int:
    """Bytes of a model that lie here, of an unfinished download or of a whole model."""
    folder = folder_for(spec, models)
    if not spec.file:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in _of_gguf(spec, folder) if file.is_file())


def discard(spec: ModelSpec, models: Path) -> None:
    """Deletes what an unfinished download left; a model that is complete stays. Raises OSError."""
    if spec.path is not None or locate(spec, models) is not None:
        return
    folder = folder_for(spec, models)
    if spec.file:
        for file in _of_gguf(spec, folder):
            file.unlink(missing_ok=True)
    elif folder.is_dir() and not any(folder.rglob(f"*{SUFFIX}")):
        shutil.rmtree(folder)


def _of_gguf(spec: ModelSpec, folder: Path) -> list[Path]:
    names = parts_named(spec.file)
    parts = [part for name in names for part in (folder / PARTIAL).glob(f"{flat(name)}.*.part")]
    return [*(folder / name for name in names), *parts]
