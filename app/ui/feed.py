"""What a page follows: an append-only list of views that any thread fills and any page reads.

A page that missed something, or was reloaded, reads from any index; nothing is sent twice
otherwise. ``follow`` batches what came within one ``PERIOD``.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from app.ui.view import View

PERIOD = 1 / 30
"""Seconds between two updates of a page."""


class Feed:
    """Views in order, and the latest totals. ``head`` goes into every packet."""

    def __init__(self, **head: Any) -> None:
        self._head = head
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
            return {
                **self._head,
                "kind": "events",
                "from": start,
                "events": self._events[start:],
                "stats": self._stats,
                "done": self._done,
            }


async def follow(feed: Feed, start: int = 0) -> AsyncIterator[str]:
    """Packets as JSON text until the feed is closed."""
    due = time.monotonic()
    while True:
        packet = feed.packet(start)
        if packet["events"] or packet["done"]:
            start += len(packet["events"])
            yield dumps(packet)
        if packet["done"]:
            return
        # Counted from the last due time, so that slow deliveries do not lower the rate.
        now = time.monotonic()
        due = max(due + PERIOD, now)
        await asyncio.sleep(due - now)


def dumps(value: Any) -> str:
    """Compact JSON without ``<``: the text passes through HTML components."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")
