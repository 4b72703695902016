"""Wake waiters when something changes: from any thread, on any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds a page's question may stay open; the page then asks again."""


class Watchers:
    """The waiters for changes of one thing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Callable[[], None]] = []

    def wake(self) -> None:
        """Wake all waiters, after a change, from any thread."""
        with self._lock:
            waiting = tuple(self._all)
        for changed in waiting:
            changed()

    async def until(
        self, look: Callable[[], T], enough: Callable[[T], bool], patience: float = PATIENCE
    ) -> T:
        """Return the value of ``look`` as soon as it is ``enough``, or after ``patience`` seconds."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(changed.set)

        with self._lock:  # before the first look, so that nothing comes unseen between
            self._all.append(wake)
        try:
            found = look()
            if not enough(found):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), patience)
                found = look()
        finally:
            with self._lock:
                self._all.remove(wake)
        return found
