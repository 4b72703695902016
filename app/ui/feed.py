"""What a page follows: an append-only list of views that any thread fills and any page reads.

A page asks for what came since an index, and is answered as soon as there is something. So nothing
is sent twice, a page that was reloaded begins again at 0, and nothing else on it is touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from app.ui.view import View

PATIENCE = 10.0
"""Seconds a question may stay open; the page then asks again."""


class Feed:
    """Views in order, and the latest totals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[View] = []
        self._stats: View | None = None
        self._done = False
        self._watchers: list[Callable[[], None]] = []

    def append(self, view: View, stats: View | None = None) -> None:
        with self._lock:
            self._events.append(view)
            self._stats = stats if stats is not None else self._stats
            self._wake()

    def close(self) -> None:
        """No more will come."""
        with self._lock:
            self._done = True
            self._wake()

    def packet(self, start: int) -> View:
        """Everything since ``start``."""
        with self._lock:
            return {"events": self._events[start:], "stats": self._stats, "done": self._done}

    @contextlib.contextmanager
    def watched(self, changed: Callable[[], None]) -> Iterator[None]:
        """Calls ``changed`` in whatever thread appends or closes; it returns at once."""
        with self._lock:
            self._watchers.append(changed)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(changed)

    def _wake(self) -> None:
        for changed in self._watchers:
            changed()


async def since(feed: Feed, start: int, patience: float = PATIENCE) -> View:
    """Everything since ``start``, as soon as there is something or the feed is closed.

    After ``patience`` seconds without either, an empty packet.
    """
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(changed.set)

    with feed.watched(wake):  # before the first look, so that nothing comes unseen between
        packet = feed.packet(start)
        if not packet["events"] and not packet["done"]:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), patience)
            packet = feed.packet(start)
    return packet
