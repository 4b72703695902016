"""Programs that store models, and where: Hugging Face's cache, LM Studio, Ollama and llama.cpp.
Nothing is fetched.

Of each repository in Hugging Face's cache (see huggingface_hub's "Understand caching") the files of
the newest snapshot, which are links, are listed. LM Studio has publisher/model/file.gguf in its
models folder, which people may move. Ollama (docs/faq, server/manifest.go) has a manifest for each
model and tag, and the files they name by their hashes: blobs, GGUF files without the ending.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.errors import what_failed
from engine.files import read_json
from engine.loading.discovery.listing import Listed, ModelStore, models_under
from engine.loading.discovery.system import MACOS, WINDOWS, System

_LM_STUDIO_HOME = ".lmstudio"
_LM_STUDIO_POINTER = ".lmstudio-home-pointer"
"""A file with the path of the folder, if it was moved."""


def _lm_studio_folders(system: System) -> tuple[Path, ...]:
    """Return the folder in its settings, the default, and that of versions before 0.3.6."""
    home = _pointed_to(system.home / _LM_STUDIO_POINTER) or system.home / _LM_STUDIO_HOME
    moved = _downloads_folder(home / "settings.json")
    usual = (home / "models", system.home / ".cache" / "lm-studio" / "models")
    return usual if moved is None else (moved, *usual)


def _lm_studio_models(folder: Path) -> Iterator[Listed]:
    """Yield models as publisher/model/file, as its own pages name them."""
    for listed in models_under(folder):
        parts = listed.path.relative_to(folder).parts[:-1]
        yield Listed(listed.path, "/".join((*parts, listed.name)), listed.reason)


def _pointed_to(file: Path) -> Path | None:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return Path(text) if text else None


def _downloads_folder(file: Path) -> Path | None:
    try:
        found = read_json(file).get("downloadsFolder")
    except (OSError, ValueError, AttributeError):
        return None
    return Path(found) if isinstance(found, str) and found else None


LM_STUDIO = ModelStore("LM Studio", _lm_studio_folders, _lm_studio_models)


_REGISTRY, _OFFICIAL = "registry.ollama.ai", "library"
_MODEL = "application/vnd.ollama.image.model"
_ADAPTER = "application/vnd.ollama.image.adapter"
_LARGEST_MANIFEST = 1 << 20


def _ollama_folders(system: System) -> tuple[Path, ...]:
    """Return the folder in OLLAMA_MODELS, the user's, and on Linux those of the service."""
    moved = system.folder_named_by("OLLAMA_MODELS")
    usual = [system.home / ".ollama" / "models"]
    if system.platform not in (WINDOWS, MACOS):
        usual += [
            system.root / "usr" / "share" / "ollama" / ".ollama" / "models",
            system.root / "var" / "lib" / "ollama" / ".ollama" / "models",
            system.root / "var" / "lib" / "ollama",
        ]
    return tuple(usual) if moved is None else (moved, *usual)


def ollama_models(folder: Path) -> Iterator[Listed]:
    """Yield the model of each manifest, named as for ``ollama run``."""
    manifests = folder / "manifests"
    for manifest in sorted(manifests.rglob("*")):
        parts = manifest.relative_to(manifests).parts
        if len(parts) == 4 and manifest.is_file() and not manifest.name.startswith("."):
            yield _listed(folder, manifest, _ollama_name(*parts))


def _ollama_name(host: str, namespace: str, model: str, tag: str) -> str:
    known = [] if host == _REGISTRY else [host]
    owner = [] if not known and namespace == _OFFICIAL else [namespace]
    return f"{'/'.join((*known, *owner, model))}:{tag}"


def _listed(folder: Path, manifest: Path, name: str) -> Listed:
    try:
        layers = read_json(manifest, _LARGEST_MANIFEST)["layers"]
        files = {str(layer["mediaType"]): _blob(folder, layer) for layer in reversed(layers)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Listed(
            manifest,
            name,
            f"Its manifest {manifest} cannot be read: {what_failed(error)}. Pull the model again.",
        )
    file = files.get(_MODEL)
    if file is None:
        return Listed(manifest, name, "Ollama has no GGUF file for it, so only Ollama can run it.")
    if _ADAPTER in files:
        return Listed(file, name, "It is an adapter for another model; adapters are not supported.")
    return Listed(file, name)


def _blob(folder: Path, layer: Mapping[str, Any]) -> Path:
    """Return the file of a digest, ``sha256:HASH``, which must not lead out of the folder."""
    kind, _, value = str(layer["digest"]).partition(":")
    if not (kind.isalnum() and value.isalnum()):
        raise ValueError(f"it names the file {layer['digest']!r}")
    return folder / "blobs" / f"{kind}-{value}"


OLLAMA = ModelStore("Ollama", _ollama_folders, ollama_models)


_HUGGING_FACE_PREFIX = "models--"


def _hugging_face_folders(system: System) -> tuple[Path, ...]:
    """Return the cache that huggingface_hub uses: by its variables, else in the home folder."""
    named = system.folder_named_by("HF_HUB_CACHE") or system.folder_named_by(
        "HUGGINGFACE_HUB_CACHE"
    )
    if named is not None:
        return (named,)
    caches = system.folder_named_by("XDG_CACHE_HOME") or system.home / ".cache"
    return ((system.folder_named_by("HF_HOME") or caches / "huggingface") / "hub",)


def _hugging_face_models(folder: Path) -> Iterator[Listed]:
    """Yield models as owner/repository, with the file's name for GGUF files."""
    for repository in sorted(folder.glob(f"{_HUGGING_FACE_PREFIX}*")):
        snapshot = _newest_snapshot(repository)
        if snapshot is None:
            continue
        name = repository.name.removeprefix(_HUGGING_FACE_PREFIX).replace("--", "/")
        for listed in models_under(snapshot):
            below = listed.path.relative_to(snapshot).parts
            inner = [*below[:-1], listed.name] if below else []
            yield Listed(listed.path, "/".join((name, *inner)), listed.reason)


def _newest_snapshot(repository: Path) -> Path | None:
    """Return the snapshot of ``main``, else the newest one."""
    try:
        revision = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
        if revision.isalnum() and (repository / "snapshots" / revision).is_dir():
            return repository / "snapshots" / revision
    except (OSError, ValueError):
        pass
    found = [one for one in (repository / "snapshots").glob("*") if one.is_dir()]
    return max(found, key=lambda one: one.stat().st_mtime, default=None)


HUGGING_FACE = ModelStore("Hugging Face", _hugging_face_folders, _hugging_face_models)
LLAMA_CPP = ModelStore(
    "llama.cpp",
    lambda system: (system.folder_named_by("LLAMA_CACHE") or system.caches / "llama.cpp",),
    models_under,
)
"""GGUF files side by side, where ``-hf`` and ``--model-url`` put them (fs_get_cache_directory in
common/common.cpp). Newer versions use Hugging Face's cache."""
PLACES: tuple[ModelStore, ...] = (LM_STUDIO, OLLAMA, LLAMA_CPP, HUGGING_FACE)
