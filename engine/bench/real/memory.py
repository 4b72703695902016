"""The most memory that a process has held."""

from __future__ import annotations

from pathlib import Path

import psutil


def peak_bytes(pid: int) -> int | None:
    """The peak of the resident set, mapped files included; on macOS, which does not tell another
    process's, what it holds right now. None once the process is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:  # no such system, or no such process
        pass
    try:
        held = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None
    return int(getattr(held, "peak_wset", held.rss))
