"""The processor's name, and its instruction sets that matter here."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import psutil

from engine.machine import cgroups

INSTRUCTIONS = (
    "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    "neon", "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2",
)  # fmt: skip
"""Names in Linux's cpuinfo: of x86, then of ARM."""


_BUSY = 0.9
"""Share of the processors in use below which nobody waits for one."""
_own = psutil.Process()


def taken_by_others() -> float:
    """Return the share of all processors that other programs used since this thread's last call.

    0 at the first call, and where enough processors were idle for everybody.
    """
    busy = psutil.cpu_percent() / 100
    own = _own.cpu_percent() / 100 / (psutil.cpu_count() or 1)
    return max(0.0, busy - own) if busy > _BUSY else 0.0


def cpuinfo(root: Path = cgroups.ROOT) -> str:
    """Return Linux's description of its processors, one block for each; "" on other systems."""
    try:
        return (root / "proc/cpuinfo").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def name(root: Path = cgroups.ROOT) -> str:
    """Return the processor's product name if the system tells it, else its architecture."""
    model = _first("model name", cpuinfo(root)) or _first("Model", cpuinfo(root))
    if not model and sys.platform == "darwin":
        model = _sysctl("machdep.cpu.brand_string")
    return model or platform.processor() or platform.machine()


@lru_cache(maxsize=8)
def instructions(root: Path = cgroups.ROOT) -> tuple[str, ...]:
    """Return the processor's ``INSTRUCTIONS``; empty if the system does not tell.

    Cached: the list of models asks once for each, and with many processors the file is long.
    """
    info = cpuinfo(root)
    listed = set((_first("flags", info) or _first("Features", info)).lower().split())
    return tuple(each for each in INSTRUCTIONS if each in listed)


def _first(key: str, told: str) -> str:
    """Return the value of the first line with this key."""
    for line in told.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return " ".join(value.split())
    return ""


def _sysctl(name: str) -> str:
    try:
        done = subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
