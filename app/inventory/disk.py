"""What downloads take on the disk, and freeing it: never outside the models folder, never in use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DiskError, InvalidRequest
from engine.loading import hub
from engine.loading.discovery import models_under

_OWN = "config.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """A model in the models folder, or what an unfinished download left there. ``files`` are GGUF files
    that are it; without any the whole folder ``path`` is."""

    path: Path
    name: str
    bytes: int
    unfinished: bool = False
    files: tuple[Path, ...] = ()


def kept(models: Path) -> tuple[Kept, ...]:
    """All that lies there, big before small. Never raises for what is gone meanwhile."""
    found = [one for child in _children(models) for one in _kept_in(child)]
    return tuple(sorted(found, key=lambda one: -one.bytes))


def free_bytes(models: Path) -> int:
    """What is free on the disk of the models folder, whether or not it is there yet."""
    there = next(path for path in (models, *models.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def delete(models: Path, path: Path, in_use: Iterable[Path]) -> int:
    """Deletes one of ``kept``; the bytes that it took.

    Raises InvalidRequest for anything else, and for what holds one of ``in_use``: the places of loaded
    models and of downloads under way; DiskError where the disk refuses.
    """
    found = next((one for one in kept(models) if one.path == path), None)
    if found is None:
        raise InvalidRequest(
            "path", f"{path} is not among the downloads in {models}, so it is not deleted here."
        )
    doomed = found.files or (found.path,)
    root = Path(os.path.realpath(models))
    for one in doomed:
        place = Path(os.path.realpath(one.parent))
        if place != root and root not in place.parents:
            raise InvalidRequest("path", f"{one} leads out of {models}, so it is not deleted.")
    for used in map(os.path.realpath, in_use):
        if any(_holds(Path(os.path.realpath(one)), Path(used)) for one in doomed):
            raise InvalidRequest(
                "path",
                f"{found.name} is in use: it is loaded, or being loaded or downloaded. Load another "
                "model or pause the download, then delete it.",
            )
    try:
        for one in doomed:
            _remove(one)
        _drop_empty(found.path if found.files == () else found.path.parent, models)
    except OSError as error:
        raise DiskError(
            f"{found.name} could not be deleted as a whole: {error.strerror or error}. Check who owns "
            f"{path}, and delete it again."
        ) from error
    return found.bytes


def _children(models: Path) -> list[Path]:
    try:
        return sorted(child for child in models.iterdir() if not child.name.startswith("."))
    except OSError:
        return []


def _kept_in(child: Path) -> Iterator[Kept]:
    """A folder in transformers' layout is one thing; of others each GGUF file is."""
    name = child.name.replace("--", "/", 1)
    if child.is_symlink() or not child.is_dir():
        if child.suffix == ".gguf" or child.is_symlink():
            yield Kept(child, name, size(child), files=(child,))
        return
    listed = [one for one in models_under(child) if one.path.is_file()]
    if (child / _OWN).is_file() or not listed:
        unfinished = (child / hub.PARTIAL).is_dir() or not any(child.glob("*.safetensors"))
        yield Kept(child, name, size(child), unfinished)
        return
    for one in listed:
        files = tuple(one.path.with_name(part) for part in hub.parts_named(one.path.name))
        yield Kept(one.path, f"{name}/{one.name}", sum(map(size, files)), files=files)
    partial = child / hub.PARTIAL
    if partial.is_dir():
        yield Kept(partial, name, size(partial), unfinished=True)


def size(path: Path) -> int:
    """Bytes of a file, or of all in a folder; 0 for what is gone. Links count nothing: what they lead to
    is somebody else's."""
    try:
        if path.is_symlink():
            return 0
        if path.is_file():
            return path.stat().st_size
        return sum(map(size, path.iterdir()))
    except OSError:
        return 0


def _holds(path: Path, used: Path) -> bool:
    return used == path or path in used.parents


def _remove(path: Path) -> None:
    """A link itself, not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _drop_empty(folder: Path, models: Path) -> None:
    """A folder that holds nothing of a model any more goes, too; hidden files are the download's own."""
    while folder != models and models in folder.parents:
        if folder.is_dir():
            if any(not one.name.startswith(".") for one in folder.iterdir()):
                return
            if (folder / hub.PARTIAL).is_dir():
                return
            shutil.rmtree(folder)
        folder = folder.parent
