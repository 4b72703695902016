"""The machine's memory; a GPU's is in ``device_memory.py``."""

from __future__ import annotations

import psutil

from engine.machine import cgroups


def free_bytes() -> int:
    """Return what a process may take now without swapping, or being killed by its container."""
    available = int(psutil.virtual_memory().available)
    left = cgroups.memory_left()
    return available if left is None else min(available, left)


def total_bytes() -> int:
    """Return all memory of the machine."""
    return int(psutil.virtual_memory().total)
