"""Choose the slot of a request: one that already holds the beginning of its text, else a free one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from engine.api import CacheListener
from engine.drafting.resources import Resources
from engine.local.run import Run
from engine.local.slot import Slot

log = logging.getLogger(__name__)

_WORTH = 8
"""Minimum shared prefix, in tokens, worth copying from another slot."""


class Slots:
    """Up to ``most`` slots, each made when it is first needed."""

    def __init__(self, make: Callable[[], Slot], most: int) -> None:
        self.most, self._make = most, make
        self._slots = [make()]
        self._uses = count(1)
        self.listener: CacheListener | None = None

    @property
    def first(self) -> Slot:
        return self._slots[0]

    @contextmanager
    def reserved(self, run: Run) -> Iterator[Slot]:
        """Reserve a slot for this run while it lasts."""
        keys = run.keys
        # A run that reuses nothing is a measurement: it always gets the same slot.
        first = not run.reuse_cache and not self.first.busy
        slot = self.first if first else self._choose(keys)
        slot.busy, slot.used = True, next(self._uses)
        self._publish(slot, keys[: slot.shared(keys)] if run.reuse_cache else ())
        try:
            yield slot
        finally:
            slot.busy = False
            self.publish(slot)

    def copy_into(self, to: Slot, keys: list[int]) -> None:
        """Copy the prefix of ``keys`` that another slot has to ``to``, which holds nothing else."""
        for slot in self._slots:
            if slot is not to and (shared := slot.shared(keys)) >= to.target.length + _WORTH:
                to.target.copy_prefix(slot.target, shared)

    def use(self, resources: Resources, kind: str) -> None:
        """See ``Slot.use``; while no slot is busy."""
        for slot in self._slots:
            slot.use(resources, kind)

    def publish(self, slot: Slot) -> None:
        """Send the listener the keys that ``slot`` holds now."""
        self._publish(slot, slot.target.keys)

    def close(self) -> None:
        """Release the proposers' memory, and publish that all slots are empty."""
        for slot in self._slots:
            slot.close()
            self._publish(slot, ())

    def _publish(self, slot: Slot, keys: Sequence[int]) -> None:
        if self.listener is None:
            return
        try:
            self.listener(self._slots.index(slot), keys)
        except Exception:  # replies must go on
            log.exception("the cache listener failed and is no longer called")
            self.listener = None

    def _choose(self, keys: list[int]) -> Slot:
        """Return the free slot that shares the longest prefix with ``keys``.

        If that is less than half of what the slot holds, the slot may be somebody's chat. Then return an
        unused slot, a new one, or the least recently used one, in this order.
        """
        if self.most == 1:
            return self._slots[0]
        free = [slot for slot in self._slots if not slot.busy]
        if free:
            best = max(free, key=lambda slot: (slot.shared(keys), -slot.used))
            if 2 * best.shared(keys) >= best.target.length > 0:
                return best
            oldest = min(free, key=lambda slot: slot.used)  # 0: unused
            if not oldest.used or len(self._slots) == self.most:
                return oldest
        assert len(self._slots) < self.most
        self._slots.append(self._make())
        return self._slots[-1]
