"""Two lists of a settings file, folders that the user added and models opened by path; and browsing for
them, with the rights of the user who runs the app."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.settings.settings_file import SettingsFile, Values
from app.web.listen import is_loopback
from engine.errors import InvalidRequest, what_failed
from engine.files import expanded

FILE = "model_folders.json"
_FOLDERS, _RECENT = "folders", "recent"
_MOST_RECENT = 20


def model_folders(data_dir: Path) -> tuple[Path, ...]:
    """Return the added folders, oldest first, existing or not; none if the file cannot be read."""
    return _read(data_dir, _FOLDERS)


def add_folder(data_dir: Path, folder: Path) -> Path:
    """Add a folder and return its absolute path. Raises InvalidRequest for a missing folder, one without
    a model, one that was added before, or a file system of processes and devices; DiskError if it cannot
    be written."""
    from engine.loading.inventory import is_pseudo, models_under  # brings NumPy

    named = os.path.abspath(expanded(folder))
    whole = Path(os.path.realpath(named))
    if is_pseudo(named) or is_pseudo(str(whole)):  # a link there may lead anywhere
        raise InvalidRequest(
            "folder", f"{named} holds processes and devices, not files. Choose another folder."
        )
    if whole.is_file():
        raise InvalidRequest(
            "folder", f"{whole} is a file. Choose its folder, or open the file itself."
        )
    if not whole.is_dir():
        raise InvalidRequest("folder", f"There is no folder {whole}. Check the path.")
    added = model_folders(data_dir)
    if whole in added:
        raise InvalidRequest("folder", f"{whole} is in the list already.")
    if next(models_under(whole), None) is None:
        raise InvalidRequest(
            "folder",
            f"{whole} has no model: no GGUF file, and no folder with config.json and safetensors. "
            "Choose another folder.",
        )
    _write(data_dir, _FOLDERS, (*added, whole))
    return whole


def remove_folder(data_dir: Path, folder: Path) -> None:
    """Remove a folder from the list. Raises InvalidRequest if it is not in it."""
    added = model_folders(data_dir)
    whole = expanded(folder).resolve()
    if whole not in added:
        listed = ", ".join(map(str, added)) or "none"
        raise InvalidRequest(
            "folder", f"{whole} is not among the added folders. Those are: {listed}."
        )
    _write(data_dir, _FOLDERS, tuple(one for one in added if one != whole))


def recent_models(data_dir: Path) -> tuple[Path, ...]:
    """Return the opened folders and files that still exist, the last one first."""
    return tuple(path for path in _read(data_dir, _RECENT) if path.exists())


def searched(data_dir: Path) -> tuple[Path, ...]:
    """Return all paths of both lists."""
    return (*model_folders(data_dir), *recent_models(data_dir))


def remember_models(data_dir: Path, opened: tuple[Path, ...]) -> bool:
    """Move opened models to the front; return whether any is new. Raises ForetokenError."""
    recent = recent_models(data_dir)
    if opened and recent[: len(opened)] != opened:
        rest = (path for path in recent if path not in opened)
        _write(data_dir, _RECENT, (*opened, *rest)[:_MOST_RECENT])
    return any(path not in recent for path in opened)


def forget_model(data_dir: Path, path: Path) -> None:
    """Remove a model from the list. Raises ForetokenError."""
    _write(data_dir, _RECENT, tuple(one for one in recent_models(data_dir) if one != path))


def _file(data_dir: Path) -> SettingsFile:
    return SettingsFile(data_dir / FILE, _check)


def _check(values: Values) -> None:
    for listed in (values.get(_FOLDERS, []), values.get(_RECENT, [])):
        if not (isinstance(listed, list) and all(isinstance(one, str) for one in listed)):
            raise TypeError("its lists of folders and recent models are damaged")


def _read(data_dir: Path, which: str) -> tuple[Path, ...]:
    return tuple(map(Path, _file(data_dir).read().get(which, ())))


def _write(data_dir: Path, which: str, paths: tuple[Path, ...]) -> None:
    with _file(data_dir).change() as values:
        values[which] = [str(one) for one in paths]


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
    folder = Path(os.path.abspath(expanded(text))) if text else home
    if folder.is_file():
        folder = folder.parent
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda each: each.name.lower())
    except (OSError, ValueError) as error:  # ValueError: a name with a null
        raise InvalidRequest(
            "folder",
            f"{folder} cannot be opened: {what_failed(error)}. Choose another folder.",
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
