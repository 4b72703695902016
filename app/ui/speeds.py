"""How fast replies were in this run of the app, by pair and by who drafted."""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict, deque
from dataclasses import dataclass

from app.ui.replies import Writing

LATEST = 5
"""Replies that count: a machine that is busy with something else soon weighs no more."""
SHORTEST = 16
"""Tokens of a reply that is long enough to tell anything."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The median of ``replies`` replies, in tokens a second."""

    tokens_per_s: float
    replies: int


class Speeds:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writings: dict[tuple[str, str], deque[Writing]] = defaultdict(
            lambda: deque(maxlen=2 * LATEST)
        )

    def add(self, pair: str, proposer: str, writing: Writing) -> None:
        """A reply that was begun; it counts once it is written."""
        with self._lock:
            self._writings[pair, proposer].append(writing)

    def fastest(self, pair: str) -> float | None:
        """Tokens/s by the proposer that was fastest with ``pair``; None where there was no reply yet."""
        with self._lock:
            proposers = [proposer for known, proposer in self._writings if known == pair]
        found = [self.of(pair, proposer) for proposer in proposers]
        return max((speed.tokens_per_s for speed in found if speed is not None), default=None)

    def of(self, pair: str, proposer: str) -> Speed | None:
        """None where there was no reply yet."""
        with self._lock:
            found = [each.statistics for each in self._writings.get((pair, proposer), ())]
        measured = [
            each.tokens_per_s
            for each in found
            if each is not None and each.tokens_per_s and each.completion_tokens >= SHORTEST
        ][-LATEST:]
        return Speed(statistics.median(measured), len(measured)) if measured else None
