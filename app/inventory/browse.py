"""Browse folders of this machine for models, with the rights of the user who runs the app."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.web.listen import is_loopback
from engine.errors import InvalidRequest

_MOST = 2000
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers of a proxy, behind which anybody may be."""


def from_this_machine(client: str | None, headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from a program on this machine, not through a proxy."""
    passed_on = any(name in headers for name in _FORWARDED)
    return client is not None and is_loopback(client) and not passed_on


def listing(text: str, home: Path) -> dict[str, Any]:
    """Return what is in the folder ``text``, or beside the file ``text``, by default in ``home``.

    Its ``path``, its ``parent``, and ``entries`` with name, path, kind (folder or model) and bytes;
    ``more`` counts those beyond the limit. Hidden and other files are left out. Raises InvalidRequest if
    the folder cannot be read.
    """
    folder = Path(os.path.abspath(Path(text).expanduser())) if text else home
    if folder.is_file():
        folder = folder.parent
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda each: each.name.lower())
    except OSError as error:
        raise InvalidRequest(
            "folder",
            f"{folder} cannot be opened: {error.strerror or error}. Choose another folder.",
        ) from error
    shown = [entry for each in listed if (entry := _entry(each)) is not None]
    shown.sort(key=lambda entry: entry["kind"] != "model")
    parent = None if folder.parent == folder else str(folder.parent)
    return {
        "path": str(folder),
        "parent": parent,
        "entries": shown[:_MOST],
        "more": max(0, len(shown) - _MOST),
    }


def find(name: str, size: int, folders: Iterable[Path]) -> str | None:
    """Return the file of this name and size in one of ``folders``, or the folder of this name, or
    None."""
    if not name or Path(name).name != name:
        return None
    for folder in dict.fromkeys(folders):
        place = folder / name
        try:
            if place.is_dir() or (place.is_file() and place.stat().st_size == size):
                return str(place)
        except OSError:
            continue
    return None


def _entry(each: os.DirEntry[str]) -> dict[str, Any] | None:
    """Return an entry, or None if it is neither a folder nor a model."""
    if each.name.startswith("."):
        return None
    try:
        if each.is_dir():
            names = set(os.listdir(each.path)) if os.access(each.path, os.R_OK) else set()
            model = "config.json" in names and any(n.endswith(".safetensors") for n in names)
            kind, size = "model" if model else "folder", 0
        elif each.name.endswith(".gguf"):
            kind, size = "model", each.stat().st_size
        else:
            return None
    except OSError:
        return None
    return {"name": each.name, "path": each.path, "kind": kind, "bytes": size}
