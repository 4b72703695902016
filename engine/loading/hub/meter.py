"""The progress and speed of a download."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.loading.progress import DownloadProgress

_REPORT_S = 0.1
_SPEED_WINDOW_S = 5.0


class Meter:
    """Counts bytes and reports them, with the speed over the last seconds."""

    def __init__(self, repository: str, on_progress: Callable[[DownloadProgress], None]) -> None:
        self._repository = repository
        self._on_progress = on_progress
        self._bytes = 0
        self._received = 0
        self._marks = [(time.monotonic(), 0)]
        self._reported = 0.0
        self._total = 0
        self._waiting = ""

    def wait(self, file: str, why: str) -> None:
        """Report that nothing arrives because of ``why``; "" that the download goes on."""
        began = bool(why) != bool(self._waiting)
        self._waiting = why
        self.report(file, force=began)

    def expect(self, more: int) -> None:
        """Set the total to what has arrived and ``more`` bytes."""
        self._total = self._bytes + more

    def arrived(self, file: str, count: int, *, now: bool = True) -> None:
        """Count bytes; with ``now`` False they were there before and do not count for the speed."""
        self._bytes += count
        if now:
            self._received += count
        self.report(file)

    def report(self, file: str, *, force: bool = False) -> None:
        time_now = time.monotonic()
        if not force and time_now - self._reported < _REPORT_S:
            return
        self._reported = time_now
        speed = self._speed(time_now)
        left = max(self._total - self._bytes, 0)
        eta = left / speed if speed > 0 else None
        self._on_progress(
            DownloadProgress(
                self._repository,
                file,
                min(self._bytes, self._total),
                self._total,
                speed,
                eta,
                self._waiting,
            )
        )

    def _speed(self, time_now: float) -> float:
        self._marks.append((time_now, self._received))
        while len(self._marks) > 2 and time_now - self._marks[0][0] > _SPEED_WINDOW_S:
            del self._marks[0]
        start, received = self._marks[0]
        return (self._received - received) / max(time_now - start, 1e-6)
