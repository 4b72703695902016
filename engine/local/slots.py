"""Choose the slot of a request: one that already holds the beginning of its text, else a free one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from engine.api import CacheListener
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
        self.listener: CacheListener | None = None

    @property
    def first(self) -> Slot:
        return self._slots[0]

    @contextmanager
    def taken(self, run: Run) -> Iterator[Slot]:
        """Reserve a slot for this run while it lasts."""
        keys = run.keys
        # A run that reuses nothing is a measurement: it always gets the same slot.
        empty = not run.reuse_cache and not self.first.busy
        slot = self.first if empty else self._choose(keys)
        slot.take()
        self._tell(slot, keys[: slot.shares(keys)] if run.reuse_cache else ())
        try:
            yield slot
        finally:
            slot.leave()
            self.tell(slot)

    def copy_into(self, to: Slot, keys: list[int]) -> None:
        """Copy to ``to``, which holds nothing else, the prefix of ``keys`` that another slot has."""
        for slot in self._slots:
            if slot is not to and (shared := slot.shares(keys)) >= to.target.length + _WORTH:
                to.target.copy_prefix(slot.target, shared)

    def tell(self, slot: Slot) -> None:
        """Tell the listener the keys of the tokens that ``slot`` holds now."""
        self._tell(slot, slot.target.keys)

    def close(self) -> None:
        """Release the proposers' memory, and tell that no slot holds a token."""
        for slot in self._slots:
            slot.close()
            self._tell(slot, ())

    def _tell(self, slot: Slot, keys: Sequence[int]) -> None:
        if self.listener is None:
            return
        try:
            self.listener(self._slots.index(slot), keys)
        except Exception:  # replies go on whatever becomes of those who follow
            log.exception("the cache listener failed and is not called again")
            self.listener = None

    def _choose(self, keys: list[int]) -> Slot:
        """Return the free slot that shares the longest prefix with ``keys``.

        If that is less than half of what the slot holds, the slot may be somebody's chat. Then return an
        unused slot, a new one, or the one used longest ago, in this order.
        """
        free = [slot for slot in self._slots if not slot.busy]
        if self.most == 1 or not free:
            return self._slots[0] if self.most == 1 else self._made()
        best = max(free, key=lambda slot: (slot.shares(keys), -slot.used))
        if 2 * best.shares(keys) >= best.target.length > 0:
            return best
        unused = next((slot for slot in free if not slot.used), None)
        if unused is not None:
            return unused
        if len(self._slots) < self.most:
            return self._made()
        return min(free, key=lambda slot: slot.used)

    def _made(self) -> Slot:
        assert len(self._slots) < self.most
        self._slots.append(self._make())
        return self._slots[-1]
