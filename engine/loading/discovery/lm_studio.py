"""LM Studio: publisher/model/file.gguf in its models folder, which people may move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.files import read_json
from engine.loading.discovery.listing import Listed, ModelStore, models_under
from engine.loading.discovery.system import System

_HOME = ".lmstudio"
_POINTER = ".lmstudio-home-pointer"
"""A file with the path of the folder, if it was moved."""


def folders(system: System) -> tuple[Path, ...]:
    """Return the folder in its settings, the default, and that of versions before 0.3.6."""
    home = _pointed_to(system.home / _POINTER) or system.home / _HOME
    moved = _downloads_folder(home / "settings.json")
    usual = (home / "models", system.home / ".cache" / "lm-studio" / "models")
    return usual if moved is None else (moved, *usual)


def models(folder: Path) -> Iterator[Listed]:
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


LM_STUDIO = ModelStore("LM Studio", folders, models)
