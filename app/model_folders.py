"""Folders with models that the user added: a list in the data folder."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from engine.errors import DiskError, InvalidRequest

_FILE = "model_folders.json"
log = logging.getLogger(__name__)


def model_folders(data_dir: Path) -> tuple[Path, ...]:
    """In the order in which they were added, there or not; none where the list cannot be read."""
    file = data_dir / _FILE
    if not file.is_file():
        return ()
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        return tuple(Path(one) for one in listed if isinstance(one, str))
    except (OSError, ValueError, TypeError) as error:
        log.warning("%s cannot be read (%s): the folders in it are left out.", file, error)
        return ()


def add_folder(data_dir: Path, folder: Path) -> Path:
    """Remembers it, as an absolute path, which is returned. Raises InvalidRequest where there is no such
    folder, DiskError where the list cannot be written."""
    whole = folder.expanduser().resolve()
    if not whole.is_dir():
        raise InvalidRequest("folder", f"There is no folder {whole}. Check the path.")
    known = model_folders(data_dir)
    if whole not in known:
        _write(data_dir, (*known, whole))
    return whole


def remove_folder(data_dir: Path, folder: Path) -> None:
    """Forgets it; nothing in it is touched. Raises InvalidRequest where it was not added."""
    known = model_folders(data_dir)
    whole = folder.expanduser().resolve()
    if whole not in known:
        listed = ", ".join(map(str, known)) or "none"
        raise InvalidRequest("folder", f"{whole} was not added. Folders that were: {listed}.")
    _write(data_dir, tuple(one for one in known if one != whole))


def _write(data_dir: Path, folders: tuple[Path, ...]) -> None:
    part = data_dir / f"{_FILE}.part"
    try:
        part.write_text(json.dumps([str(one) for one in folders], indent=1), encoding="utf-8")
        part.replace(data_dir / _FILE)
    except OSError as error:
        raise DiskError.at(data_dir, error) from error
