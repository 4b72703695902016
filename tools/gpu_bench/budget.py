"""A budget of time: parts that no longer fit are left out and reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

SLOWEST, QUICKEST = 4.0, 0.25
"""Limits of the factor by which measured times correct an estimate."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part that was not measured, and the reason."""

    part: str
    reason: str


class Budget:
    """``seconds`` from now on. The times of earlier parts correct estimates."""

    def __init__(self, seconds: float, clock: Callable[[], float] = perf_counter) -> None:
        self.seconds, self._clock = seconds, clock
        self._began = clock()
        self._estimated = self._took = 0.0

    def spent(self) -> float:
        return self._clock() - self._began

    def left(self) -> float:
        return self.seconds - self.spent()

    def expected(self, estimate: float) -> float:
        """Return ``estimate`` corrected by the times of earlier parts."""
        if not self._estimated:
            return estimate
        return estimate * min(max(self._took / self._estimated, QUICKEST), SLOWEST)

    def refuses(self, estimate: float) -> str | None:
        """Return why a part of so many seconds is left out; None if it still fits."""
        expected, left = self.expected(estimate), max(self.left(), 0.0)
        if expected <= left:
            return None
        return (
            f"it would take some {expected:.0f} s, and {left:.0f} s of {self.seconds / 60:g} minutes "
            "are left (--minutes)"
        )

    def run(self, estimate: float, work: Callable[[], None]) -> None:
        """Do ``work`` and count its time, even if it fails."""
        started = self._clock()
        try:
            work()
        finally:
            self._estimated += estimate
            self._took += self._clock() - started
