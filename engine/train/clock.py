"""How far a run is, and when something is due again."""

from __future__ import annotations

import time

from engine.train.settings import Budget


class Clock:
    """How far a run is: the fraction of its tokens or minutes, whichever is larger."""

    def __init__(self, budget: Budget, tokens: int = 0, seconds: float = 0.0) -> None:
        self._budget, self.tokens, self._before = budget, tokens, seconds
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._start

    @property
    def progress(self) -> float:
        parts = [0.0]
        if self._budget.tokens is not None:
            parts.append(self.tokens / max(1, self._budget.tokens))
        if self._budget.minutes is not None:
            parts.append(self.seconds / max(1e-9, self._budget.minutes * 60))
        return min(1.0, max(parts))

    @property
    def seconds_left(self) -> float:
        done = self.progress
        return self.seconds * (1 - done) / done if done > 0 else 0.0


class Timer:
    """Tells when so many minutes have passed since it last did."""

    def __init__(self, minutes: float) -> None:
        self._every, self._last = minutes * 60, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self._last < self._every:
            return False
        self._last = time.monotonic()
        return True
