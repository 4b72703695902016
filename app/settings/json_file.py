"""A JSON file of the data folder: read anew each time, replaced as a whole, and never written over where
what stands in it could not be read."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ForetokenError
from engine.files import read_json, write_private

log = logging.getLogger(__name__)


class UnreadableFile(ForetokenError):
    """It is from a newer version, or the disk did not give it out."""


def read(path: Path, version: int) -> dict[str, Any]:
    """Return the object in it; an empty one where there is none, or where it was ``set_aside``.

    Raises UnreadableFile: what may be whole is not to be written over.
    """
    try:
        kept = read_json(path)
        if not isinstance(kept, dict):
            raise TypeError("it is no JSON object")
        found = kept.get("version", version)
        newer = found > version
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UnreadableFile(
            f"{path} cannot be read: {error.strerror or error}, so it is neither used nor changed. Check "
            "its permissions and the disk, or choose another folder with --data-dir."
        ) from error
    except (ValueError, TypeError) as error:
        set_aside(path, error)
        return {}
    if newer:
        raise UnreadableFile(
            f"{path} was written by a newer version of Foretoken ({found}), so it is neither used nor "
            "changed. Update Foretoken, or choose another folder with --data-dir."
        )
    return kept


def set_aside(path: Path, error: Exception) -> None:
    """Rename a damaged file, so that the next write does not end what its owner may still mend."""
    aside = path.with_name(f"{path.name}.damaged")
    try:
        path.replace(aside)
    except OSError:
        aside = path
    log.warning(
        "%s cannot be read (%s), so it is not used. It is kept as %s.", path, error, aside.name
    )


def write(path: Path, value: Mapping[str, Any]) -> None:
    """Raises DiskError; what was kept before is there then."""
    write_private(path, json.dumps(value, indent=1))
