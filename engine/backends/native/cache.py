"""The app's cache of packed weights; see ``WeightCache``. Torch-free."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.kernels.native.weight_cache import CachedWeights, WeightCache, wait, why_broken
from engine.machine import compilers
from engine.models.checkpoints.gguf.description import describe, is_gguf

if TYPE_CHECKING:
    from engine.kernels.native.library import LinearLibrary

__all__ = ["bound", "folder", "forget_gone", "of_model", "wait", "why_broken"]


def folder() -> Path:
    """Return the folder of packed weights."""
    return compilers.cache_folder() / "weights"


def bound() -> str:
    """Return in a sentence how large the cache may become."""
    cache = WeightCache.of_app(folder())
    return (
        "No packed weights are stored."
        if cache is None
        else f"Packed weights take {cache.bound()}."
    )


def of_model(path: Path, library: LinearLibrary, setting: str) -> CachedWeights | None:
    """Return what is stored of the GGUF model in ``path``; None if nothing is to be stored."""
    cache = WeightCache.of_app(folder()) if is_gguf(path) else None
    if cache is None:
        return None
    parts = [(part.file, part.digest) for part in describe(path).parts]
    return cache.of_model(parts, library.path, setting)


def forget_gone() -> None:
    """Delete what is stored of models that are no longer where they were."""
    WeightCache(folder(), 0).forget_gone()
