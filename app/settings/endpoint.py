"""What the Server page sets of the API, from run to run: in a file that its owner alone reads."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.files import read_json, write_private

logger = logging.getLogger(__name__)

FILE = "api.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether the API is on, its key, and the origins whose pages may use it."""

    on: bool = False
    key: str | None = None
    origins: tuple[str, ...] = ()


def read(data_dir: Path) -> Kept:
    """What was kept last. A file that cannot be read is said to be, and means: nothing."""
    file = data_dir / FILE
    try:
        found = read_json(file)
        key, origins = found.get("key"), found.get("origins", [])
        if not isinstance(key, str | None) or not all(isinstance(each, str) for each in origins):
            raise ValueError("a key and origins are text")
        return Kept(found.get("on") is True, key or None, tuple(origins))
    except FileNotFoundError:
        return Kept()
    except (OSError, ValueError, AttributeError, TypeError) as error:
        logger.warning(
            "%s cannot be read (%s), so the API starts without what the Server page kept there. Set it "
            "there again, or delete the file.",
            file,
            error,
        )
        return Kept()


def write(data_dir: Path, kept: Kept) -> None:
    """Keeps it for the next run. Raises DiskError."""
    write_private(data_dir / FILE, json.dumps(asdict(kept), indent=1))
