"""Files that people name: read to their end only where they have one that is near."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def bounded(path: Path, most: int) -> bytes:
    """What a regular file holds. Raises OSError, also for anything else and for more than ``most`` bytes.

    Devices and pipes have no end, or wait for somebody; and a file may say that it is shorter than it is.
    """
    # Not to wait for the other end of a pipe; regular files do not care.
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(0, "it is no regular file")
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(0, f"it holds more than {most >> 20} MiB")
    return found
