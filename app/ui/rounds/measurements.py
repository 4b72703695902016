"""Measurements that pages start and follow: one at a time, for two would slow each other."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import ClassVar, Protocol

from app.runtime import Runtime
from app.storage.store import Store
from app.ui import words
from app.ui.endpoints import View, endpoint
from app.ui.rounds.feed import Feed, since
from engine.api import Loaded
from engine.errors import ForetokenError, InvalidRequest, NotLoaded

logger = logging.getLogger(__name__)


class Measurement(Protocol):
    """One measurement. Pages follow its ``feed``, which is closed when ``run`` has ended."""

    feed: Feed

    def run(self) -> None:
        """Measure on a separate thread; the feed reports what it raises."""

    def stop(self) -> None:
        """Stop soon and keep what was measured. Any thread may call this."""


class Measurements:
    """The measurements of one app: the one that runs, and the last of each page."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A page that outlives the app must not take another's measurement for the one it followed.
        self._numbers = itertools.count(int(1000 * time.time()))
        self._running: Measurement | None = None
        self._last: dict[str, tuple[int, Measurement]] = {}
        self._asked: tuple[str, View] = "", {}

    def start(self, page: str, measurement: Measurement, asked: View) -> int:
        """Start what a page ``asked`` for. Return the number to follow it by. Raises InvalidRequest
        while another one runs."""
        with self._lock:
            if self._running is not None:
                raise InvalidRequest(
                    "measurement",
                    "Another measurement is running, and the two would slow each other down. "
                    "Wait, or stop it.",
                )
            number = next(self._numbers)
            self._running = measurement
            self._last[page] = number, measurement
            self._asked = page, asked
        threading.Thread(
            target=self._work, args=(measurement,), name=f"measure-{page}", daemon=True
        ).start()
        return number

    def last(self, page: str) -> int | None:
        """Return the number of the page's last measurement, running or not."""
        return self._last[page][0] if page in self._last else None

    def asked(self, page: str) -> View | None:
        """Return what the page asked for, while that is measured."""
        with self._lock:
            asking, asked = self._asked
            return asked if self._running is not None and asking == page else None

    def stop(self, page: str) -> None:
        """Stop the page's last measurement, if it runs."""
        _, measurement = self._last.get(page, (0, None))
        if measurement is not None and measurement is self._running:
            measurement.stop()

    async def follow(self, page: str, data: View) -> View | None:
        """Return the events since the page asked last; None for a measurement that is gone."""
        number, measurement = self._last.get(page, (0, None))
        if measurement is None or data["number"] != number:
            return None
        return await since(measurement.feed, int(data["from"]))

    def _work(self, measurement: Measurement) -> None:
        told = None
        try:
            measurement.run()
        except ForetokenError as error:
            told = str(error)
        except Exception as error:  # a thread's error would otherwise vanish, and the page wait
            logger.exception("a measurement failed")
            told = (
                f"The measurement failed: {error!r}. Try again. Diagnostics on the "
                "Settings page shows the details."
            )
        with self._lock:  # whoever sees the end may start the next
            self._running = None
        if told is not None:
            measurement.feed.append({"t": "broken", "message": told})
        measurement.feed.close()


class MeasuringBackend:
    """Base class of the backends of pages that measure."""

    PAGE: ClassVar[str]

    def __init__(self, runtime: Runtime, store: Store, measurements: Measurements) -> None:
        self.runtime, self.store, self.measurements = runtime, store, measurements

    @endpoint
    def stop(self, data: View | None = None) -> bool:
        self.measurements.stop(self.PAGE)
        return True

    @endpoint
    async def follow(self, data: View) -> View | None:
        """Return the events since the page asked last."""
        return await self.measurements.follow(self.PAGE, data)

    def _loaded(self) -> Loaded:
        loaded = self.runtime.engine.loaded
        if loaded is None:
            raise NotLoaded(words.NOT_LOADED)
        return loaded
