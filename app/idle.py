"""How long nobody has asked for anything, and what happens then: models' memory is freed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from app.loading import PairLoader
from engine.api import Engine, Loaded
from engine.errors import ForetokenError

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0
"""Seconds between two looks. Nobody tells when a pair is loaded, so they are never far apart."""


class IdleUnloading:
    """Unloads a pair after ``minutes`` without requests for it; None: never. Any thread may set them."""

    def __init__(self, engine: Engine, loader: PairLoader) -> None:
        self._engine, self._loader = engine, loader
        self._closed, self._changed = False, threading.Event()
        self._used = time.monotonic()
        self._thread: threading.Thread | None = None
        self._minutes: float | None = None
        self._watchers: list[Callable[[], None]] = []

    @property
    def minutes(self) -> float | None:
        return self._minutes

    @minutes.setter
    def minutes(self, minutes: float | None) -> None:
        self._minutes = minutes
        self._start(minutes)

    def keep(self, pair: Loaded, minutes: float | None) -> None:
        """Use another time for ``pair``, until it is unloaded or another time is set for it."""
        self._loader.kept[pair.request] = minutes
        self._start(minutes)

    def _start(self, minutes: float | None) -> None:
        self._changed.set()
        if minutes is not None and self._thread is None:
            self._thread = threading.Thread(target=self._work, name="unload when idle", daemon=True)
            self._thread.start()

    def left_s(self, pair: Loaded) -> float | None:
        """Return the seconds until ``pair`` is unloaded if nobody asks for it; None: it stays. Raises
        NotLoaded."""
        minutes = self._loader.kept.get(pair.request, self._minutes)
        if minutes is None or pair.server:
            return None
        return max(0.0, 60 * minutes - self._engine.of(pair).idle_s)

    @property
    def seconds(self) -> float:
        """Return the seconds since the last request."""
        return time.monotonic() - self._used

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` at every request, before it is queued."""
        self._watchers.append(watcher)

    def touch(self) -> None:
        """Note a request."""
        self._used = time.monotonic()
        for watcher in self._watchers:
            watcher()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._changed.set()

    def _work(self) -> None:
        while not self._closed:
            self._changed.wait(self._looked())
            self._changed.clear()

    def _looked(self) -> float:
        """Unload what was not used for long enough; return the seconds until the next look."""
        wait = min(_LONGEST_WAIT_S, 15 * (self._minutes or 1))
        for pair in self._engine.resident:
            with suppress(ForetokenError):  # it was unloaded or replaced just now
                left = self.left_s(pair)
                if left == 0:
                    self._loader.unload(pair)
                elif left is not None:
                    wait = min(wait, left)
        return max(_SHORTEST_WAIT_S, wait)
