"""What a page follows: an append-only list of views that any thread fills and any page reads.

A page asks for what came since an index, and is answered as soon as there is something. So nothing
is sent twice, a page that was reloaded begins again at 0, and nothing else on it is touched.
"""

from __future__ import annotations

import asyncio
import threading
import time

from app.ui.view import View

PATIENCE = 10.0
"""Seconds a question may stay open; the page then asks again."""

GLANCE = 0.01
"""Seconds between two looks at a feed while a question is open."""


class Feed:
    """Views in order, and the latest totals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[View] = []
        self._stats: View | None = None
        self._done = False

    def append(self, view: View, stats: View | None = None) -> None:
        with self._lock:
            self._events.append(view)
            self._stats = stats if stats is not None else self._stats

    def close(self) -> None:
        """No more will come."""
        with self._lock:
            self._done = True

    def packet(self, start: int) -> View:
        """Everything since ``start``."""
        with self._lock:
            return {"events": self._events[start:], "stats": self._stats, "done": self._done}


async def since(feed: Feed, start: int) -> View:
    """Everything since ``start``, as soon as there is something or the feed is closed."""
    patience = time.monotonic() + PATIENCE
    while True:
        packet = feed.packet(start)
        if packet["events"] or packet["done"] or time.monotonic() > patience:
            return packet
        await asyncio.sleep(GLANCE)
