"""How much of the processor other programs take, so that a measurement can tell that it was disturbed."""

from __future__ import annotations

import psutil

_BUSY = 0.9
"""Share of the processors in use below which nobody waits for one."""
_own = psutil.Process()


def taken() -> float:
    """Return the share of all processors that other programs used since this thread's last call.

    0 at the first call, and where enough processors were idle for everybody.
    """
    busy = psutil.cpu_percent() / 100
    own = _own.cpu_percent() / 100 / (psutil.cpu_count() or 1)
    return max(0.0, busy - own) if busy > _BUSY else 0.0
