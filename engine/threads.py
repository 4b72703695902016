"""How many threads compute: one for each physical core that this process may use.

Two hyperthreads share the units that multiply, so a second thread on a core only gets in the way; and
more threads than a container is granted wait for each other. Imports torch only to set the number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

from engine.errors import InvalidRequest

ROOT = Path("/")


def use(count: int | None = None) -> int:
    """Sets how many threads torch computes with in the calling thread, and returns the number.

    None is ``default``.
    """
    import torch

    torch.set_num_threads(default() if count is None else count)
    return torch.get_num_threads()


def check(count: int | None) -> int | None:
    """``count`` if this machine can run so many at once. Raises InvalidRequest."""
    most = len(_allowed())
    if count is not None and not 1 <= count <= most:
        raise InvalidRequest(
            "threads",
            f"threads is {count}; it must be 1 to {most}, the processors that this process may use. "
            f"More would wait for each other; {default()} is the default.",
        )
    return count


def default() -> int:
    """``OMP_NUM_THREADS`` where it is set, else the physical cores."""
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(stated) if stated.isdecimal() and int(stated) else physical_cores()


def physical_cores(root: Path = ROOT) -> int:
    """Cores that this process may use; hyperthreads count once, a container's share is respected."""
    allowed = _allowed()
    if sys.platform.startswith("linux"):
        cores = _linux_cores(_read(root / "proc/cpuinfo"), allowed)
        share = _share(root)
        return cores if share is None else max(1, min(cores, int(share)))
    return max(1, min(psutil.cpu_count(logical=False) or len(allowed), len(allowed)))


def _allowed() -> Collection[int]:
    """The numbers of the logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _linux_cores(cpuinfo: str, allowed: Collection[int]) -> int:
    """Distinct cores among ``allowed``; a processor that names no core (ARM) is one."""
    cores = set()
    for block in cpuinfo.split("\n\n"):
        values = {
            key.strip(): value.strip()
            for key, _, value in (line.partition(":") for line in block.splitlines())
        }
        number = values.get("processor", "")
        if number.isdecimal() and int(number) in allowed:
            core = values.get("core id")
            cores.add((values.get("physical id"), core) if core else number)
    return len(cores) or len(allowed)


def _share(root: Path) -> float | None:
    """How many processors' time the control groups of this process grant; None: as much as there is."""
    shares = [share for file in _quota_files(root) if (share := _quota(file)) is not None]
    return min(shares, default=None)


def _quota_files(root: Path) -> Iterator[Path]:
    """Of each control group that the process is in, from its own to the root's."""
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            top, name = mounted, "cpu.max"
        elif "cpu" in controllers.split(","):
            top, name = mounted / "cpu", "cpu.cfs_quota_us"
        else:
            continue
        group = top / path.strip("/")
        while group != top:
            yield group / name
            group = group.parent
        yield top / name


def _quota(file: Path) -> float | None:
    """``cpu.max`` holds "quota period"; the first version has a file for each."""
    words = _read(file).split()
    if file.name != "cpu.max":
        words += _read(file.with_name("cpu.cfs_period_us")).split()
    try:
        quota, period = (int(word) for word in words)
    except ValueError:  # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
