"""Which lane a request gets: the one whose cache its text goes on from, or one that nobody misses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from engine.api import CacheListener
from engine.local.lane import Lane
from engine.local.run import Run

log = logging.getLogger(__name__)

_WORTH = 8
"""Tokens from which on what another lane has of them is copied, which takes less than to compute one."""


class Lanes:
    """Up to ``most`` lanes, each made when it is first needed."""

    def __init__(self, make: Callable[[], Lane], most: int) -> None:
        self.most, self._make = most, make
        self._lanes = [make()]
        self.listener: CacheListener | None = None

    @property
    def first(self) -> Lane:
        return self._lanes[0]

    @contextmanager
    def taken(self, run: Run) -> Iterator[Lane]:
        """A lane for this run alone, while it lasts."""
        known = run.known
        # What starts from nothing is measured: always in the same place.
        empty = not run.reuse_cache and not self.first.busy
        lane = self.first if empty else self._choose(known)
        lane.take()
        self._tell(lane, known[: lane.shares(known)] if run.reuse_cache else ())
        try:
            yield lane
        finally:
            lane.leave()
            self.tell(lane)

    def lend(self, to: Lane, tokens: Sequence[int]) -> None:
        """Brings into the cache of ``to``, which holds nothing else, what another has of ``tokens``."""
        for lane in self._lanes:
            if lane is not to and (shared := lane.shares(tokens)) >= to.target.length + _WORTH:
                to.target.copy_prefix(lane.target, shared)

    def tell(self, lane: Lane) -> None:
        """Tells the listener what the cache of ``lane`` holds now."""
        self._tell(lane, lane.target.tokens)

    def close(self) -> None:
        """Releases the proposers' memory; nothing is held any more."""
        for lane in self._lanes:
            lane.close()
            self._tell(lane, ())

    def _tell(self, lane: Lane, tokens: Sequence[int]) -> None:
        if self.listener is None:
            return
        try:
            self.listener(self._lanes.index(lane), tokens)
        except Exception:  # replies go on whatever becomes of those who follow
            log.exception("what the caches hold is told no more")
            self.listener = None

    def _choose(self, tokens: Sequence[int]) -> Lane:
        """The free lane of which most is kept; where that is less than half of what it has, it may be
        somebody's chat, and one that was never used is better, or else the one used longest ago."""
        free = [lane for lane in self._lanes if not lane.busy]
        if self.most == 1 or not free:
            return self._lanes[0] if self.most == 1 else self._made()
        best = max(free, key=lambda lane: (lane.shares(tokens), -lane.used))
        if 2 * best.shares(tokens) >= best.target.length > 0:
            return best
        unused = next((lane for lane in free if not lane.used), None)
        if unused is not None:
            return unused
        if len(self._lanes) < self.most:
            return self._made()
        return min(free, key=lambda lane: lane.used)

    def _made(self) -> Lane:
        assert len(self._lanes) < self.most
        self._lanes.append(self._make())
        return self._lanes[-1]
