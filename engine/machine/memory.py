"""The machine's memory; a GPU's is in ``device_memory.py``."""

from __future__ import annotations

import ctypes
import sys

import psutil

from engine.machine import cgroups


def trim() -> None:
    """Give freed memory back to the system, where the C library would keep it for later (glibc)."""
    if sys.platform == "linux" and (give := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        give(0)


def free_bytes() -> int:
    """Return what a process may take now without swapping, or being killed by its container."""
    available = int(psutil.virtual_memory().available)
    left = cgroups.memory_left()
    return available if left is None else min(available, left)


def total_bytes() -> int:
    """Return all memory of the machine."""
    return int(psutil.virtual_memory().total)
