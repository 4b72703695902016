"""Hugging Face's cache: of each repository the files of its newest snapshot, which are links.

Source: huggingface_hub's "Understand caching". Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.loading.discovery.listing import Listed, ModelStore, models_under
from engine.loading.discovery.system import System

_PREFIX = "models--"


def folders(system: System) -> tuple[Path, ...]:
    """Return the cache that huggingface_hub uses: by its variables, else in the home folder."""
    named = system.folder_named_by("HF_HUB_CACHE") or system.folder_named_by(
        "HUGGINGFACE_HUB_CACHE"
    )
    if named is not None:
        return (named,)
    caches = system.folder_named_by("XDG_CACHE_HOME") or system.home / ".cache"
    return ((system.folder_named_by("HF_HOME") or caches / "huggingface") / "hub",)


def models(folder: Path) -> Iterator[Listed]:
    """Yield models as owner/repository, with the file's name for GGUF files."""
    for repository in sorted(folder.glob(f"{_PREFIX}*")):
        snapshot = _newest(repository)
        if snapshot is None:
            continue
        name = repository.name.removeprefix(_PREFIX).replace("--", "/")
        for listed in models_under(snapshot):
            below = listed.path.relative_to(snapshot).parts
            inner = [*below[:-1], listed.name] if below else []
            yield Listed(listed.path, "/".join((name, *inner)), listed.reason)


def _newest(repository: Path) -> Path | None:
    """Return the snapshot of ``main``, else the newest one."""
    try:
        revision = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
        if revision.isalnum() and (repository / "snapshots" / revision).is_dir():
            return repository / "snapshots" / revision
    except (OSError, ValueError):
        pass
    found = [one for one in (repository / "snapshots").glob("*") if one.is_dir()]
    return max(found, key=lambda one: one.stat().st_mtime, default=None)


HUGGING_FACE = ModelStore("Hugging Face", folders, models)
