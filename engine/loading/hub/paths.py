"""Paths of models: the models folder, and huggingface_hub's own cache. Never uses the network."""

from __future__ import annotations

import os
from pathlib import Path

from huggingface_hub import constants

from engine.errors import DownloadError
from engine.loading.specs import ModelSpec
from engine.models.checkpoints.checkpoint import weights_complete
from engine.models.checkpoints.gguf.description import parts_named

MODELS_VARIABLE = "FORETOKEN_MODELS"
"""Environment variable that moves the models folder."""


def models_folder(data_dir: Path) -> Path:
    """Return where downloads go: ``$FORETOKEN_MODELS``, or ``models`` in the data folder."""
    moved = os.environ.get(MODELS_VARIABLE)
    return Path(moved).expanduser() if moved else data_dir / "models"


def folder_for(spec: ModelSpec, models: Path) -> Path:
    """Return a model's folder in the models folder, which need not exist."""
    if spec.path is not None:
        return spec.path
    name = repository_of(spec).replace("/", "--")
    return models / (name if spec.revision == "main" else f"{name}--{spec.revision}")


def locate(spec: ModelSpec, models: Path | None) -> Path | None:
    """Return the model's folder or GGUF file if it is complete on disk, else None."""
    if spec.address:
        return None
    if spec.path is not None:
        return spec.path if spec.path.exists() else None
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
