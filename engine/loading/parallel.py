"""How many requests a loaded pair may run at once: as the backend can, and as their caches fit."""

from __future__ import annotations

from engine.loading.loader import ModelPlan
from engine.loading.planning.choices import Backend
from engine.loading.planning.fit import MemoryFit

A_FEW = 4
"""Where nobody says how many: caches are reckoned whole, and most people are alone on their machine."""


def at_once(
    target: ModelPlan, wanted: int | None, room: MemoryFit, *, waits: bool = False
) -> tuple[int, str | None]:
    """So many, and why fewer than were ``wanted``, as a sentence; None where all may, or nobody asked.

    ``room`` is reckoned for the caches of one. ``waits``: whether the compiled step comes later.
    """
    if target.backend is not Backend.NATIVE:
        if wanted in {None, 1} or waits:
            return 1, None
        return 1, (
            f"Requests run one after the other, not {wanted} at once: only the step compiled for a "
            "processor runs several together."
        )
    left = max(room.free - room.needed, 0)
    if wanted is None:
        left //= 2  # nobody asked for it, so much stays free
    most = 1 + left // room.kv if room.kv else A_FEW
    count = min(wanted or A_FEW, most)
    if wanted is None or count == wanted:
        return count, None
    return count, (
        f"{wanted} requests at once were asked for, and the caches of {count} fit in memory: the others "
        "wait. A shorter context leaves room for more."
    )
