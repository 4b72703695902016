"""Learn how long a step takes by its size, on a machine whose pace drifts and whose calls may wait."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log

_SLOWEST = 0.1
"""Minimum weight of a new measurement: about the last ten of a size matter."""
_PACE = 0.2
"""Weight of a new round in the pace, and of a new step in the growth of the experts read."""
_WAITS = 0.03
"""Weight of a new call in the mean wait: about the last thirty matter."""
_OUTLIER = 2.0
"""Limit of a measurement, as a factor above or below the expected time."""
_FEW = 4
"""Measurements of a size that one of less than half their time replaces: calls may wait, but none is
twice as fast as it should be."""


class Times:
    """Seconds by size at pace 1; sizes between measured ones are interpolated.

    Below the smallest measured size the line goes through zero if ``proportional``, as for drafting token
    by token; else it is flat, as for verifying many tokens in one pass.

    ``wait``: the mean seconds that a call waits, mostly for a core, instead of computing. On a busy
    machine one call in a few takes many times its computing time, whatever its size. Counted as pace that
    would make large steps seem slow; counted as the time of one size, that size.
    """

    def __init__(self, *, proportional: bool) -> None:
        self.proportional = proportional
        self._seconds: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._sizes: list[int] = []
        self.wait, self._calls = 0.0, 0
        self.growth = 1.0  # of what a step reads besides, see ``MixtureTimes``

    @property
    def known(self) -> bool:
        return bool(self._sizes)

    @property
    def certain(self) -> bool:
        """Return whether some size was measured more than a few times."""
        return any(count > _FEW for count in self._seen.values())

    def covers(self, size: int) -> bool:
        """Return whether ``size`` lies within the measured ones."""
        return self.known and self._sizes[0] <= size <= self._sizes[-1]

    def learn(self, size: int, seconds: float) -> None:
        """Move the size's time towards a new measurement."""
        if size not in self._seconds:
            known = self.covers(size)
            start = self._rest(self.expected(size) if known else seconds)
            self._sizes.insert(bisect_left(self._sizes, size), size)
            self._seconds[size], self._seen[size] = start, int(known)
        expected = self.expected(size)
        few = self._seen[size] <= _FEW
        self._seen[size] += 1
        if seconds < expected / _OUTLIER and few:
            change = seconds - expected
        else:
            weight = max(1 / self._seen[size], _SLOWEST)
            change = weight * (_limited(seconds, expected) - expected)
        self._seconds[size] = Times.__call__(self, size) + change * self._own_share(size)

    def learn_limit(self, size: int, seconds: float) -> None:
        """Learn that the size takes at most ``seconds``, if it was expected to take longer."""
        if seconds < self.expected(size):
            self.learn(size, seconds)

    def computing(self, size: int, seconds: float, pace: float) -> float:
        """Return the computing time of a call, and learn the rest as its wait."""
        computing = seconds
        if self.covers(size):
            computing = min(seconds, _OUTLIER * self.expected(size) * pace)
        elif self.known and self.proportional and size > (last := self._sizes[-1]) > 0:
            computing = min(seconds, _OUTLIER * self(last) * pace * size / last)
        self._calls += 1
        weight = max(1 / (self._calls + 4), _WAITS)
        self.wait += weight * (seconds - computing - self.wait)
        return computing

    def observe_step(self, rows: int, experts: float | None = None) -> None:
        """Learn from a step, before its time, what it read besides; nothing here."""

    def expected(self, size: int) -> float:
        """Return the seconds that the step just observed should have taken."""
        return self(size)

    def __call__(self, size: int) -> float:
        """Return the seconds for ``size``; 0 before any measurement."""
        if size in self._seconds:
            return self._bounded(size, self._seconds[size])
        at = bisect_left(self._sizes, size)
        if at and len(self._sizes) > 1:
            low, high = self._sizes[at - 1 : at + 1] if at < len(self._sizes) else self._sizes[-2:]
            a, b = self._seconds[low], self._seconds[high]
            line = a + (b - a) * (size - low) / (high - low)
            # A larger step never takes less time; a line that falls is noise.
            return self._bounded(size, line if at < len(self._sizes) else max(line, b))
        if not self._sizes:
            return 0.0
        first = self._sizes[0]
        return self._seconds[first] * (size / first if self.proportional and first else 1.0)

    def table(self, largest: int) -> list[float]:
        """Return the seconds for sizes 0 to ``largest``, none less than for a smaller size.

        This is isotonic regression (pool adjacent violators), weighted by the number of measurements: a
        wrong time of a rare size must not distort the others.
        """
        pools: list[tuple[float, float, int]] = []  # seconds, weight, number of sizes
        for size in range(largest + 1):
            seconds, weight, count = self(size), min(self._seen.get(size, 0), 1 / _SLOWEST) + 0.1, 1
            while pools and pools[-1][0] > seconds:
                lower, its_weight, its_count = pools.pop()
                seconds = (lower * its_weight + seconds * weight) / (its_weight + weight)
                weight, count = its_weight + weight, its_count + count
            pools.append((seconds, weight, count))
        return [seconds for seconds, _, count in pools for _ in range(count)]

    def _bounded(self, size: int, seconds: float) -> float:
        """Return at most what so many tokens of the smallest size above 0 take, if ``proportional``."""
        first = next((one for one in self._sizes if one), 0) if self.proportional and size else 0
        return min(seconds, self._seconds[first] * size / first) if first else seconds

    def _rest(self, seconds: float) -> float:
        """Return what is kept of the first time of a size."""
        return seconds

    def _own_share(self, size: int) -> float:
        """Return what a second more of ``expected`` is of the size's own time."""
        return 1.0


class MixtureTimes(Times):
    """Times of verification by a mixture of experts: a step reads each expert once that any row chose.

        seconds(rows) = rest(rows) + price * rows ** growth

    ``rows ** growth`` are the experts of a step, in those of one row. ``growth`` follows the text: 0 if
    all rows choose the same, 1 if no two share one. So one step tells what all others take, also at
    depths that no draft reaches now, and a text that reads more is not mistaken for a slower machine.
    (EVICT, arXiv 2605.00342, weighs drafts by times of row counts alone.)

    ``share``: of the weights that one row's step reads, those of experts; so many of its seconds are
    ``price``. ``experts_read``: see ``MixtureModel``.
    """

    def __init__(self, share: float, experts_read: Callable[[], float]) -> None:
        super().__init__(proportional=False)
        self._ratio = share / (1 - share)  # of a row's experts to its rest
        self._experts_read = experts_read
        self._experts = 1.0  # of the step just observed

    def observe_step(self, rows: int, experts: float | None = None) -> None:
        """Learn how many ``experts`` the last step of ``rows`` rows read; None: ask the model."""
        self._experts = self._experts_read() if experts is None else experts
        if rows > 1:
            growth = min(log(max(self._experts, 1.0)) / log(rows), 1.0)
            self.growth += _PACE * (growth - self.growth)

    def expected(self, size: int) -> float:
        return super().__call__(size) + self._price * self._experts

    def __call__(self, size: int) -> float:
        return super().__call__(size) + self._price * float(max(size, 1) ** self.growth)

    def _own_share(self, size: int) -> float:
        return 1 / (1 + self._ratio * self._experts) if size == 1 else 1.0

    @property
    def _price(self) -> float:
        return self._ratio * super().__call__(1)

    def _rest(self, seconds: float) -> float:
        if not self.known:
            return seconds / (1 + self._ratio * self._experts)
        return seconds - self._price * self._experts


@dataclass(slots=True)
class Costs:
    """What steps take on this machine. ``verify``: a pass by rows, including the pending token.

    ``between``: seconds between two rounds, for text, events and the page. ``pace``: the machine's
    current slowness relative to its usual pace, 1. Other work and heat slow all steps alike: without the
    pace, times of depths that are not in use would be outdated, and comparisons with them wrong.
    """

    verify: Times = field(default_factory=lambda: Times(proportional=False))
    between: float = 0.0
    pace: float = 1.0

    def observe(self, steps: list[tuple[Times, int, float]]) -> None:
        """Learn the pace, then the times, from a round's steps (times, size, measured seconds)."""
        steps = [
            (times, size, times.computing(size, seconds, self.pace))
            for times, size, seconds in steps
        ]
        if all(times.covers(size) for times, size, _ in steps):
            expected = sum(times.expected(size) for times, size, _ in steps)
            measured = sum(seconds for _, _, seconds in steps)
            if expected > 0 and measured > 0:
                current = _limited(measured / expected, self.pace)
                self.pace *= (current / self.pace) ** _PACE
        for times, size, seconds in steps:
            times.learn(size, seconds / self.pace)

    def observe_between(self, seconds: float) -> None:
        """Learn the seconds from one round to the next."""
        limited = _limited(seconds, self.between)
        self.between += _SLOWEST * (limited - self.between) if self.between else limited


def _limited(value: float, usual: float) -> float:
    """Return ``value`` limited to a factor of ``_OUTLIER`` around ``usual``."""
    return min(max(value, usual / _OUTLIER), usual * _OUTLIER) if usual > 0 else value
