"""The feed that a page follows: an append-only list of views that any thread fills and any page reads.

A page asks for what came since an index, and is answered as soon as there is something. So nothing
is sent twice, a page that was reloaded begins again at 0, and nothing else on it is touched.
"""

from __future__ import annotations

import threading

from app.ui.endpoints import View
from app.watchers import PATIENCE, Watchers


class Feed:
    """Views in order, and the latest totals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[View] = []
        self._stats: View | None = None
        self._done = False
        self.watchers = Watchers()

    def append(self, view: View, stats: View | None = None) -> None:
        with self._lock:
            self._events.append(view)
            self._stats = stats if stats is not None else self._stats
        self.watchers.wake()

    def close(self) -> None:
        """End the feed."""
        with self._lock:
            self._done = True
        self.watchers.wake()

    def packet(self, start: int) -> View:
        """Return everything since ``start``."""
        with self._lock:
            return {"events": self._events[start:], "stats": self._stats, "done": self._done}


async def since(feed: Feed, start: int, patience: float = PATIENCE) -> View:
    """Return everything since ``start``, once there is something or the feed is closed.

    Return an empty packet after ``patience`` seconds without either.
    """

    def enough(packet: View) -> bool:
        return bool(packet["events"]) or packet["done"]

    return await feed.watchers.until(lambda: feed.packet(start), enough, patience)
