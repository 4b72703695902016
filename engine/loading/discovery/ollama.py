"""Ollama: a manifest for each model and tag, and the files they name by their hashes (blobs).

Source: docs/faq and server/manifest.go of Ollama. A blob is a GGUF file without the ending.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.errors import what_failed
from engine.files import read_json
from engine.loading.discovery.listing import Listed, ModelStore
from engine.loading.discovery.system import MACOS, WINDOWS, System

_REGISTRY, _OFFICIAL = "registry.ollama.ai", "library"
_MODEL = "application/vnd.ollama.image.model"
_ADAPTER = "application/vnd.ollama.image.adapter"
_LARGEST_MANIFEST = 1 << 20


def folders(system: System) -> tuple[Path, ...]:
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


def models(folder: Path) -> Iterator[Listed]:
    """Yield the model of each manifest, named as for ``ollama run``."""
    manifests = folder / "manifests"
    for manifest in sorted(manifests.rglob("*")):
        parts = manifest.relative_to(manifests).parts
        if len(parts) == 4 and manifest.is_file() and not manifest.name.startswith("."):
            yield _listed(folder, manifest, _name(*parts))


def _name(host: str, namespace: str, model: str, tag: str) -> str:
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


OLLAMA = ModelStore("Ollama", folders, models)
