"""The settings of the Server page, from run to run, in a file that its owner alone can read."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from app.settings import json_file

log = logging.getLogger(__name__)

FILE = "api.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether the API is on, its key, and the origins whose pages may use it."""

    on: bool = False
    key: str | None = None
    origins: tuple[str, ...] = ()


def read(data_dir: Path) -> Kept:
    """Return what was kept last; the defaults where the file cannot be read, which is logged."""
    file = data_dir / FILE
    try:
        found = json_file.read(file, _VERSION)
        key, origins = found.get("key"), found.get("origins", [])
        if not (isinstance(key, str | None) and isinstance(origins, list)):
            raise TypeError("key must be text and origins a list")
        if not all(isinstance(each, str) for each in origins):
            raise TypeError("origins must be texts")
        return Kept(found.get("on") is True, key or None, tuple(origins))
    except json_file.UnreadableFile as error:
        log.warning("%s", error)
    except TypeError as error:
        json_file.set_aside(file, error)
    log.warning("The API starts with its defaults. Set it again on the Server page.")
    return Kept()


def write(data_dir: Path, kept: Kept) -> None:
    """Keep it for the next run. Raises DiskError, or UnreadableFile for a file of a newer version."""
    json_file.read(data_dir / FILE, _VERSION)
    json_file.write(data_dir / FILE, {"version": _VERSION, **asdict(kept)})
