"""Read a container's limits from the control groups of this process (Linux).

Both versions of control groups, and several groups within each other: the narrowest counts. Elsewhere
than on Linux there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def cpu_share(root: Path = ROOT) -> float | None:
    """Return the granted processor time, in processors; None if it is not limited."""
    shares = []
    for group, new in _groups("cpu", root):
        if new:
            words = _read(group / "cpu.max").split()
        else:
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            words = [_read(group / file).strip() for file in files]
        if len(words) == 2:
            quota, period = map(_number, words)
            if quota and period:
                shares.append(quota / period)
    return min(shares, default=None)


def memory_left(root: Path = ROOT) -> int | None:
    """Return the bytes still available, reclaimable file caches included; None if no limit is set."""
    left = []
    for group, new in _groups("memory", root):
        names = ("memory.max", "memory.current", "inactive_file")
        if not new:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        limit, used = (_number(_read(group / name).strip()) for name in names[:2])
        if limit is not None and used is not None:
            left.append(max(limit - used + _statistic(group / "memory.stat", names[2]), 0))
    return min(left, default=None)


def _groups(controller: str, root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folders from the process's own group up to the root's; True for cgroups version 2."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup"
        top = top / controller if controllers else top
        # Within a container the path may be that of the host, which is not mounted here.
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:depth]), not controllers


def _statistic(file: Path, name: str) -> int:
    for line in _read(file).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _number(value.strip()) or 0
    return 0


def _number(word: str) -> int | None:
    """Return the number; None for "max", -1 and anything that is not a number."""
    return int(word) if word.isdecimal() else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
