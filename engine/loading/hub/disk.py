"""Models on disk, in the models folder or huggingface_hub's own cache. Never uses the network.

Downloads, complete and partial, are listed and deleted; never outside the models folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from engine.backends.native import cache
from engine.errors import DiskError, DownloadError, InvalidRequest
from engine.files import expanded, size_on_disk
from engine.loading.discovery.listing import models_under
from engine.loading.specs import ModelSpec
from engine.models.checkpoints.checkpoint import weights_complete
from engine.models.checkpoints.gguf.description import SUFFIX, parts_named

MODELS_VARIABLE = "FORETOKEN_MODELS"
"""Environment variable that moves the models folder."""


def models_folder(data_dir: Path) -> Path:
    """Return where downloads go: ``$FORETOKEN_MODELS``, or ``models`` in the data folder."""
    moved = os.environ.get(MODELS_VARIABLE)
    return expanded(moved) if moved else data_dir / "models"


def folder_for(spec: ModelSpec, models: Path) -> Path:
    """Return a model's folder in the models folder, which need not exist."""
    if spec.path is not None:
        return spec.path
    name = repository_of(spec)
    return models / flat(name if spec.revision == "main" else f"{name}--{spec.revision}")


def locate(spec: ModelSpec, models: Path | None) -> Path | None:
    """Return the model's folder or GGUF file if it is complete on disk, else None."""
    if spec.address:
        return None
    if spec.path is not None:
        return spec.path if os.path.exists(spec.path) else None
    if spec.file:
        return None if models is None else _gguf_in(folder_for(spec, models), spec.file)
    head = bool(spec.method)
    if models is not None and weights_complete(own := folder_for(spec, models), head=head):
        return own
    return _in_cache(repository_of(spec), spec.revision, head)


def _gguf_in(folder: Path, file: str) -> Path | None:
    """Return the first file if all parts are there: files get their names once they are complete."""
    whole = all((folder / part).is_file() for part in parts_named(file))
    return folder / parts_named(file)[0] if whole else None


def _in_cache(repository: str, revision: str, head: bool) -> Path | None:
    """Return the model's folder in huggingface_hub's own cache, if it is complete."""
    if not Path(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import try_to_load_from_cache  # brings the client for HTTP

    cached = try_to_load_from_cache(repository, "config.json", revision=revision)
    if isinstance(cached, str) and weights_complete(Path(cached).parent, head=head):
        return Path(cached).parent
    return None


def repository_of(spec: ModelSpec) -> str:
    """Return the model's name on the hub. Raises DownloadError if it has none."""
    if spec.repository is None:
        raise DownloadError(f"{spec.name} has no repository to download from.")
    return spec.repository


def hub_page(spec: ModelSpec) -> str:
    """Return the address of a repository's page."""
    return f"{endpoint()}/{repository_of(spec)}"


def endpoint() -> str:
    """Return the hub's address: ``$HF_ENDPOINT``, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


PARTIAL = ".partial"
"""The folder, inside a model's own, of files whose bytes have not all arrived."""


@dataclass(frozen=True, slots=True)
class DownloadedModel:
    """A model in the models folder, or a partial download. ``files`` are its GGUF files; if there are
    none, it is the whole folder ``path``."""

    path: Path
    name: str
    bytes: int
    unfinished: bool = False
    files: tuple[Path, ...] = ()


def downloaded(models: Path) -> tuple[DownloadedModel, ...]:
    """Return all downloads, large before small. Ignore files that vanish meanwhile."""
    found = [one for child in _children(models) for one in _in_folder(child)]
    return tuple(sorted(found, key=lambda one: -one.bytes))


def free_bytes(models: Path) -> int:
    """Return the free bytes on the disk of the models folder, which need not exist yet."""
    there = next(path for path in (models, *models.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def delete(models: Path, path: Path, in_use: Iterable[Path]) -> int:
    """Delete one of ``downloaded`` and return its bytes.

    Raises InvalidRequest for any other path, and if it contains one of ``in_use`` (loaded models, running
    downloads); DiskError if the disk refuses.
    """
    found = next((one for one in downloaded(models) if one.path == path), None)
    if found is None:
        raise InvalidRequest(
            "path", f"{path} is not one of the downloads in {models}, so it was not deleted."
        )
    doomed = found.files or (found.path,)
    root = Path(os.path.realpath(models))
    for one in doomed:
        place = Path(os.path.realpath(one.parent))
        if place != root and root not in place.parents:
            raise InvalidRequest("path", f"{one} is a link out of {models}, so it was not deleted.")
    for used in map(os.path.realpath, in_use):
        places = {Path(used), *Path(used).parents}
        if any(Path(os.path.realpath(one)) in places for one in doomed):
            raise InvalidRequest(
                "path",
                f"{found.name} is in use. Load another model, or stop the download, training or "
                "race that uses it, then delete it.",
            )
    try:
        for one in doomed:
            _remove(one)
        _drop_empty(found.path if found.files == () else found.path.parent, models)
    except OSError as error:
        raise DiskError(
            f"{found.name} could not be deleted completely: {error.strerror or error}. "
            f"Check the permissions of {path} and delete it again."
        ) from error
    cache.forget_gone()
    return found.bytes


def _children(models: Path) -> list[Path]:
    try:
        return sorted(child for child in models.iterdir() if not child.name.startswith("."))
    except OSError:
        return []


def _in_folder(child: Path) -> Iterator[DownloadedModel]:
    """Yield a folder in transformers' layout as one model, else each GGUF file."""
    name = child.name.replace("--", "/", 1)
    if child.is_symlink() or not child.is_dir():
        if child.suffix == ".gguf" or child.is_symlink():
            yield DownloadedModel(child, name, size_on_disk(child), files=(child,))
        return
    listed = [one for one in models_under(child) if one.path.is_file()]
    if (child / "config.json").is_file() or not listed:
        unfinished = (child / PARTIAL).is_dir() or not any(child.glob("*.safetensors"))
        yield DownloadedModel(child, name, size_on_disk(child), unfinished)
        return
    for one in listed:
        files = tuple(one.path.with_name(part) for part in parts_named(one.path.name))
        yield DownloadedModel(
            one.path, f"{name}/{one.name}", sum(map(size_on_disk, files)), files=files
        )
    partial = child / PARTIAL
    if partial.is_dir():
        yield DownloadedModel(partial, name, size_on_disk(partial), unfinished=True)


def _remove(path: Path) -> None:
    """Remove a file, a folder, or a link but not its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _drop_empty(folder: Path, models: Path) -> None:
    """Remove ``folder`` and its parents if no model is left in them; hidden files belong to downloads."""
    while folder != models and models in folder.parents:
        if folder.is_dir():
            if any(not one.name.startswith(".") for one in folder.iterdir()):
                return
            if (folder / PARTIAL).is_dir():
                return
            shutil.rmtree(folder)
        folder = folder.parent


def flat(name: str) -> str:
    """Return a name on the hub, which may have folders in it, as the name of one file or folder."""
    return name.replace("/", "--")


def arrived(spec: ModelSpec, models: Path) -> int:
    """Return how many bytes of a model are here, complete or partial."""
    folder = folder_for(spec, models)
    if not spec.file:
        return size_on_disk(folder)
    return sum(map(size_on_disk, _of_gguf(spec, folder)))


def discard(spec: ModelSpec, models: Path) -> None:
    """Delete a partial download; a complete model stays. Raises OSError."""
    if spec.path is not None or locate(spec, models) is not None:
        return
    folder = folder_for(spec, models)
    if spec.file:
        notes = [folder / PARTIAL / f"{flat(name)}.version" for name in parts_named(spec.file)]
        for file in (*_of_gguf(spec, folder), *notes):
            file.unlink(missing_ok=True)
        kept = SUFFIX, ".safetensors", ".part"
        if folder.is_dir() and not any(each.suffix in kept for each in folder.rglob("*")):
            shutil.rmtree(folder)
    elif folder.is_dir() and not any(folder.rglob(f"*{SUFFIX}")):
        shutil.rmtree(folder)


def _of_gguf(spec: ModelSpec, folder: Path) -> list[Path]:
    names = parts_named(spec.file)
    parts = [part for name in names for part in (folder / PARTIAL).glob(f"{flat(name)}.*.part")]
    return [*(folder / name for name in names), *parts]
