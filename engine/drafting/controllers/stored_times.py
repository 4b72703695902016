"""Store measured times of verification between starts: measuring delays the first reply by half a second.

Rounds correct outdated times. Failures to read or write are only logged: they cost that half second.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DiskError
from engine.files import read_json, write_private

log = logging.getLogger(__name__)

MAX_AGE_S = 24 * 3600.0
"""Maximum age: a machine's speed changes with its heat, its battery and other programs."""


@dataclass(frozen=True, slots=True)
class StoredTimes:
    """Seconds by rows of one model in ``file``. ``setup``: everything that its speed depends on; times of
    another setup are ignored and replaced."""

    file: Path
    setup: str
    now: Callable[[], float] = time.time

    def read(self) -> dict[int, float]:
        """Return the stored times; empty if there are none, or they are outdated."""
        try:
            stored = read_json(self.file)
            seconds = {int(rows): float(taken) for rows, taken in stored["seconds"].items()}
            age = self.now() - float(stored["measured"])
            same = stored["setup"] == self.setup
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("stored verification times in %s cannot be read: %s", self.file, error)
            return {}
        valid = all(
            rows > 0 and math.isfinite(taken) and taken > 0 for rows, taken in seconds.items()
        )
        return seconds if same and valid and 0 <= age < MAX_AGE_S else {}

    def write(self, seconds: Mapping[int, float]) -> None:
        """Replace the stored times."""
        content = {"setup": self.setup, "measured": self.now(), "seconds": dict(seconds)}
        try:
            write_private(self.file, json.dumps(content))
        except DiskError as error:
            log.warning("verification times could not be stored: %s", error)
