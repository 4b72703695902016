"""Speeds of replies in this run of the app, by pair and proposer."""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from app.ui.replies import LiveReply
from engine.files import parse_json

DRAFT = "draft"
"""The proposer that is a draft model."""
LATEST = 5
"""Replies that count: a machine that is busy with something else soon weighs no more."""
SHORTEST = 16
"""Tokens of a reply that is long enough to tell anything."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The median of ``replies`` replies, in tokens a second. ``speedup``: the same beside plain decoding,
    as far as that was measured."""

    tokens_per_s: float
    replies: int
    speedup: float | None = None


class Speeds:
    """Speeds by pair, keyed by ``app.ui.controls.stored_settings.key_of``. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writings: dict[tuple[str, str], deque[LiveReply]] = defaultdict(
            lambda: deque(maxlen=2 * LATEST)
        )

    def add(self, pair: str, proposer: str, writing: LiveReply) -> None:
        """Add a reply that was begun; it counts once it is complete."""
        with self._lock:
            self._writings[pair, proposer].append(writing)

    def fastest(self, pair: str) -> float | None:
        """Return the tokens/s of the proposer that was fastest with ``pair``; None before the first
        reply."""
        with self._lock:
            proposers = [proposer for known, proposer in self._writings if known == pair]
        found = [self.of(pair, proposer) for proposer in proposers]
        return max((speed.tokens_per_s for speed in found if speed is not None), default=None)

    def of(self, pair: str, proposer: str) -> Speed | None:
        """Return the speed of a pair with a proposer; None before the first reply."""
        with self._lock:
            return _speed(self._writings.get((pair, proposer), ()))

    def tried(self, target: str, draft: str) -> Speed | None:
        """Return the speed of a draft model by the ids of both, with any heads."""
        with self._lock:
            found = [
                writing
                for (pair, proposer), writings in self._writings.items()
                if proposer == DRAFT and parse_json(pair)[:2] == [target, draft]
                for writing in writings
            ]
        return _speed(found)


def _speed(writings: Iterable[LiveReply]) -> Speed | None:
    measured = [
        each
        for each in (writing.statistics for writing in writings)
        if each is not None and each.tokens_per_s and each.completion_tokens >= SHORTEST
    ][-LATEST:]
    if not measured:
        return None
    times = [each.speedup for each in measured if each.speedup]
    speeds = [each.tokens_per_s for each in measured if each.tokens_per_s]
    return Speed(
        statistics.median(speeds), len(measured), statistics.median(times) if times else None
    )
