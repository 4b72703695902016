"""Folders with models that the user added, and models that were opened by their path: lists in the data
folder."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from engine.errors import InvalidRequest
from engine.files import read_json, write_private

_FOLDERS, _RECENT = "model_folders.json", "recent_models.json"
_MOST_RECENT = 20
log = logging.getLogger(__name__)


def model_folders(data_dir: Path) -> tuple[Path, ...]:
    """In the order in which they were added, there or not; none where the list cannot be read."""
    return _read(data_dir / _FOLDERS)


def add_folder(data_dir: Path, folder: Path) -> Path:
    """Remembers it, as an absolute path, which is returned. Raises InvalidRequest where there is no such
    folder, or it is the system's own, DiskError where the list cannot be written."""
    from engine.loading.inventory import is_pseudo  # brings NumPy

    named = os.path.abspath(folder.expanduser())
    whole = Path(os.path.realpath(named))
    if is_pseudo(named) or is_pseudo(str(whole)):  # a link there may lead anywhere
        raise InvalidRequest(
            "folder",
            f"{named} shows processes and devices, no files on a disk. Choose another folder.",
        )
    if not whole.is_dir():
        raise InvalidRequest("folder", f"There is no folder {whole}. Check the path.")
    known = model_folders(data_dir)
    if whole not in known:
        _write(data_dir / _FOLDERS, (*known, whole))
    return whole


def remove_folder(data_dir: Path, folder: Path) -> None:
    """Forgets it; nothing in it is touched. Raises InvalidRequest where it was not added."""
    known = model_folders(data_dir)
    whole = folder.expanduser().resolve()
    if whole not in known:
        listed = ", ".join(map(str, known)) or "none"
        raise InvalidRequest("folder", f"{whole} was not added. Folders that were: {listed}.")
    _write(data_dir / _FOLDERS, tuple(one for one in known if one != whole))


def recent_models(data_dir: Path) -> tuple[Path, ...]:
    """Folders and files that were opened, the last one first; those that are still there."""
    return tuple(path for path in _read(data_dir / _RECENT) if path.exists())


def searched(data_dir: Path) -> tuple[Path, ...]:
    """Every place of the two lists that models are looked for in."""
    return (*model_folders(data_dir), *recent_models(data_dir))


def remember_models(data_dir: Path, opened: tuple[Path, ...]) -> bool:
    """Puts what was opened first; whether any is new. Raises DiskError where it cannot be kept."""
    known = recent_models(data_dir)
    if opened and known[: len(opened)] != opened:
        rest = (path for path in known if path not in opened)
        _write(data_dir / _RECENT, (*opened, *rest)[:_MOST_RECENT])
    return any(path not in known for path in opened)


def forget_model(data_dir: Path, path: Path) -> None:
    """Remembers it no more; nothing of it is touched. Raises DiskError where that cannot be kept."""
    _write(data_dir / _RECENT, tuple(one for one in recent_models(data_dir) if one != path))


def _read(file: Path) -> tuple[Path, ...]:
    if not file.is_file():
        return ()
    try:
        listed = read_json(file)
        return tuple(Path(one) for one in listed if isinstance(one, str))
    except (OSError, ValueError, TypeError) as error:
        log.warning("%s cannot be read (%s): what is in it is left out.", file, error)
        return ()


def _write(file: Path, paths: tuple[Path, ...]) -> None:
    write_private(file, json.dumps([str(one) for one in paths], indent=1))
