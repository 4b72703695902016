"""Where models lie: the models folder, and huggingface_hub's own cache. Never goes to the network."""

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
    """Where downloads go: ``$FORETOKEN_MODELS``, or ``models`` in the data folder.

    For whoever starts an engine: what is behind it is handed the folder."""
    moved = os.environ.get(MODELS_VARIABLE)
    return Path(moved).expanduser() if moved else data_dir / "models"


def folder_for(spec: ModelSpec, models: Path) -> Path:
    """The folder of this model in the models folder, whether it is there or not; people may put its
    files there."""
    if spec.path is not None:
        return spec.path
    name = repository_of(spec).replace("/", "--")
    return models / (name if spec.revision == "main" else f"{name}--{spec.revision}")


def locate(spec: ModelSpec, models: Path | None) -> Path | None:
    """The model's folder or GGUF file when it is complete on disk, else None.

    ``models`` is the models folder.
    """
    if spec.address:
        return None
    if spec.path is not None:
        return spec.path if spec.path.exists() else None
    if spec.file:
        return None if models is None else _gguf_in(folder_for(spec, models), spec.file)
    if models is not None and weights_complete(own := folder_for(spec, models)):
        return own
    return _in_cache(repository_of(spec), spec.revision)


def _gguf_in(folder: Path, file: str) -> Path | None:
    """Its first file where all parts are there: they get their names once they are whole."""
    whole = all((folder / part).is_file() for part in parts_named(file))
    return folder / parts_named(file)[0] if whole else None


def _in_cache(repository: str, revision: str) -> Path | None:
    """The folder of huggingface_hub's own cache, complete."""
    if not Path(constants.HF_HUB_CACHE, f"models--{repository.replace('/', '--')}").is_dir():
        return None
    from huggingface_hub import try_to_load_from_cache  # brings the client for HTTP

    cached = try_to_load_from_cache(repository, "config.json", revision=revision)
    if isinstance(cached, str) and weights_complete(Path(cached).parent):
        return Path(cached).parent
    return None


def repository_of(spec: ModelSpec) -> str:
    """Its name on the hub. Raises DownloadError for a model that has none."""
    if spec.repository is None:
        raise DownloadError(f"{spec.name} has no repository to download from.")
    return spec.repository


def hub_page(spec: ModelSpec) -> str:
    """Return the address of a repository's page."""
    return f"{endpoint()}/{repository_of(spec)}"


def endpoint() -> str:
    """The hub's address: ``$HF_ENDPOINT``, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
