"""Describe a model on disk by its headers: what it is, or why it cannot be run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from engine.drafting.heads import kind_in
from engine.errors import ModelError, what_failed
from engine.loading.discovery.listing import Listed
from engine.loading.specs import ModelSpec, with_sizes
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.checkpoints.gguf.description import is_gguf, siblings
from engine.models.checkpoints.gguf.header import read_gguf_header
from engine.vision.plan import beside as tower_beside

_Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model in the ``place`` of a program, or in a folder; requests name it by ``path``.

    ``reason`` says why it cannot be run; if it is None, ``spec`` describes the model, or ``head`` is the
    kind of a head. ``architecture`` and ``type`` (Q4_K_M, BF16, ...) are "" if unknown.
    """

    path: Path
    name: str
    place: str
    bytes: int = 0
    architecture: str = ""
    type: str = ""
    reason: str | None = None
    spec: ModelSpec | None = None
    head: str = ""


def examine(listed: Listed, place: str) -> FoundModel:
    """Describe ``listed``. Never raises; unchanged files are not read again."""
    model = FoundModel(path=listed.path, name=listed.name, place=place, reason=listed.reason)
    if listed.reason is not None:
        return model
    try:
        stamp = _stamp(listed.path)
    except OSError as error:
        reason = f"{listed.path} cannot be read: {what_failed(error)}."
        return replace(model, reason=reason)
    # What drafts for it, or sees for it, may come later.
    beside = (*siblings(listed.path), tower_beside(listed.path)) if is_gguf(listed.path) else ()
    return _examined(model, stamp, beside)


def bytes_of(listed: Listed) -> int:
    """Return the bytes of the files, or 0 if they cannot be listed. Reads nothing."""
    try:
        return sum(size for _, size, _ in _stamp(listed.path))
    except OSError:
        return 0


def _stamp(path: Path) -> _Stamp:
    """Return name, size and time of each file."""
    files = [path] if is_gguf(path) else sorted(one for one in path.iterdir() if one.is_file())
    stats = [(file.name, file.stat()) for file in files]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@lru_cache(maxsize=1024)
def _examined(model: FoundModel, stamp: _Stamp, beside: tuple[Path | None, ...]) -> FoundModel:
    path = model.path
    model = replace(model, bytes=sum(size for _, size, _ in stamp))
    try:
        if kind := kind_in(path):
            return replace(model, type="head", head=kind)
        return _usable(inspect(path), model)
    except ModelError as error:
        reason = str(error)
    except Exception as error:  # a scan goes on, whatever a damaged file makes of its reader
        reason = f"{path} cannot be read: {what_failed(error)}."
    return replace(model, architecture=_stated_architecture(path), reason=reason)


def _usable(checkpoint: Checkpoint, model: FoundModel) -> FoundModel:
    name = checkpoint.architecture
    model = replace(model, bytes=checkpoint.bytes, architecture=name, type=checkpoint.dtype)
    if not checkpoint.writes_text:
        return replace(model, reason=f"It is {name}, which cannot continue text.")
    spec = ModelSpec(id=str(model.path), name=model.name, path=model.path)
    return replace(model, spec=with_sizes(spec, checkpoint))


def _stated_architecture(path: Path) -> str:
    """Return the architecture in a GGUF header, or "" if it cannot be read."""
    if not is_gguf(path):
        return ""
    try:
        return str(read_gguf_header(path).metadata.get("general.architecture", ""))
    except Exception:  # that it is broken is said already
        return ""
