"""Candidates for models by their names alone, and the walk through folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.loading.discovery.system import System
from engine.models.checkpoints.gguf.description import SUFFIX, is_later_part, name_of

_DEPTH = 8
_MOST_FOLDERS = 20_000
"""A folder that somebody adds may be a whole disk."""
_PSEUDO = re.compile(r"/(proc|sys|dev(?!/shm(/|$)))(/|$)")
"""Linux's file systems that show processes and devices; /dev/shm is memory that holds ordinary files."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A folder or GGUF file that may be a model. ``reason`` says why it cannot be one, if known."""

    path: Path
    name: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ModelStore:
    """A program that stores models. ``folders`` returns all that it may use, existing or not;
    ``models`` lists one of them and never raises for broken content."""

    name: str
    folders: Callable[[System], Sequence[Path]]
    models: Callable[[Path], Iterator[Listed]]


def is_pseudo(real: str) -> bool:
    """Return whether a path without links leads into a file system of processes or devices."""
    return bool(_PSEUDO.match(real))


def models_under(folder: Path) -> Iterator[Listed]:
    """Yield GGUF files (first parts of split ones) and folders in transformers' layout, recursively."""
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        current = Path(here)
        real = os.path.realpath(here)
        deep = len(current.relative_to(folder).parts) >= _DEPTH
        skipped = real in seen or is_pseudo(real)  # a link back, or no place for models
        if skipped or deep or len(seen) >= _MOST_FOLDERS:
            folders.clear()
        if skipped:
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "config.json" in files and any(name.endswith(".safetensors") for name in files):
            yield Listed(current, current.name)
        for name in sorted(files):
            file = current / name
            if name.endswith(SUFFIX) and not name.startswith(".") and not is_later_part(file):
                yield Listed(file, name_of(file))
