"""The number of compute threads: one for each physical core that this process may use.

Two hyperthreads share the units that multiply, so a second thread on a core only gets in the way; and
more threads than a container is granted wait for each other. Imports torch only to set the number.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from engine.machine import cgroups
from engine.machine.processor import cpuinfo
from engine.values import require

_CACHED = 32_000_000
"""Bytes of weights: 15 MB in 12 layers take as long on one thread as on two (docs/log/page.md)."""


def use(count: int | None = None) -> int:
    """Set torch's number of threads in the calling thread, and return the number.

    None is ``default``.
    """
    import torch

    torch.set_num_threads(default() if count is None else count)
    return torch.get_num_threads()


@contextmanager
def using(count: int | None) -> Iterator[None]:
    """Set torch's number of threads in the calling thread for a block; None is ``default``."""
    import torch

    before = torch.get_num_threads()
    use(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def restored_on_error() -> Iterator[None]:
    """Restore torch's number of threads in the calling thread if the block raises."""
    import torch

    before = torch.get_num_threads()
    try:
        yield
    except BaseException:
        torch.set_num_threads(before)
        raise


def check(count: int | None) -> int | None:
    """Return ``count`` if this machine can run that many threads at once. Raises InvalidRequest."""
    if count is None:
        return None
    limit = largest()
    require(
        1 <= count <= limit,
        "threads",
        f"is {count}; it must be 1 to {limit}, the processors available to this process. The default "
        f"is {default()}.",
    )
    return count


def largest() -> int:
    """Return the largest sensible count: the logical processors that this process may use."""
    return len(_allowed())


def default() -> int:
    """Return ``OMP_NUM_THREADS`` up to ``largest`` if it is set, else the number of physical cores."""
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    count = int(stated) if stated.isdecimal() else 0
    return min(count, largest()) or physical_cores()


def for_weights(size: int) -> int | None:
    """Return 1 for weights of ``size`` bytes that one core has in its cache, else None, the default.

    A step of such weights takes less than a millisecond and has five barriers a layer: a second thread
    gains nothing, and one that has lost its core to a browser holds up every one of them.
    """
    return 1 if size <= _CACHED else None


def physical_cores(root: Path = cgroups.ROOT) -> int:
    """Return the cores this process may use, within its container's share. Hyperthreads count once."""
    allowed = _allowed()
    if sys.platform.startswith("linux"):
        cores = _linux_cores(cpuinfo(root), allowed)
        share = cgroups.cpu_share(root)
        return cores if share is None else max(1, min(cores, int(share)))
    return max(1, min(psutil.cpu_count(logical=False) or len(allowed), len(allowed)))


def _allowed() -> Collection[int]:
    """Return the numbers of the logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _linux_cores(told: str, allowed: Collection[int]) -> int:
    """Return how many cores ``allowed`` has; a processor that names no core (ARM) counts as one."""
    cores: set[tuple[str | None, str]] = set()
    for block in told.split("\n\n"):
        values = {
            key.strip(): value.strip()
            for key, _, value in (line.partition(":") for line in block.splitlines())
        }
        number = values.get("processor", "")
        if number.isdecimal() and int(number) in allowed:
            core = values.get("core id") or f"of processor {number}"
            cores.add((values.get("physical id"), core))
    return len(cores) or len(allowed)
