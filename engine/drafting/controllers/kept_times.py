"""What verifying takes on this machine, kept from one start to the next: measuring it is half a second
that the first reply waits for.

Rounds correct what is out of date, as they correct what was measured in a bad moment. Failing to read or
write costs that half second, never a reply, so it is logged and left.
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

LASTS_S = 24 * 3600.0
"""A machine's pace is another one with its heat, its battery and what else it runs."""


@dataclass(frozen=True, slots=True)
class KeptTimes:
    """Seconds by rows of one model in ``file``. ``way``: all that decides how it is computed; what was
    measured in another way counts for nothing, and is replaced."""

    file: Path
    way: str
    now: Callable[[], float] = time.time

    def read(self) -> dict[int, float]:
        """Empty where there are none, or none that still count."""
        try:
            found = read_json(self.file)
            seconds = {int(rows): float(taken) for rows, taken in found["seconds"].items()}
            age = self.now() - float(found["measured"])
            same = found["way"] == self.way
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("what verifying takes cannot be read from %s: %s", self.file, error)
            return {}
        counts = all(
            rows > 0 and math.isfinite(taken) and taken > 0 for rows, taken in seconds.items()
        )
        return seconds if same and counts and 0 <= age < LASTS_S else {}

    def write(self, seconds: Mapping[int, float]) -> None:
        """Instead of what is there."""
        content = {"way": self.way, "measured": self.now(), "seconds": dict(seconds)}
        try:
            write_private(self.file, json.dumps(content))
        except DiskError as error:
            log.warning("what verifying takes is not kept: %s", error)
