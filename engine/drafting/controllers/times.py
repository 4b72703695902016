"""Learn how long a step takes by its size, on a machine whose pace drifts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import log

_SLOWEST = 0.1
"""Minimum weight of a new measurement."""
_MOST_SEEN, _UNSEEN = 10, 0.1
"""Maximum weight, in measurements, of a size in ``table``, and weight of a size that was not measured."""
_PACE = 0.2
"""Weight of a new round in the pace."""
_WAITS = 0.03
"""Weight of a new call in the mean wait: about the last thirty matter."""
_GROWTH = 0.3
"""Weight of a new step in the growth of the experts read: it is known without noise, but texts change."""
_OUTLIER = 2.0
"""Limit of a measurement, as a factor above or below the expected time."""


class Waits:
    """The mean time that a call waits, mostly for a core, instead of computing.

    On a busy machine one call in a few takes many times its computing time, whatever its size. Counted as
    pace that would make large steps seem slow; counted as the time of one size, that size.
    """

    def __init__(self) -> None:
        self.mean = 0.0  # seconds

    def remove(self, seconds: float, expected: float) -> float:
        """Return the computing time of a call, and learn the rest. ``expected`` 0: unknown."""
        computing = min(seconds, _OUTLIER * expected) if expected > 0 else seconds
        self.mean += _WAITS * (seconds - computing - self.mean)
        return computing


class Times:
    """Seconds by size at pace 1, without ``waits``. Sizes between measured ones are interpolated.

    Below the smallest measured size the line goes through zero if ``proportional``, as for drafting token
    by token; else it is flat, as for verifying many tokens in one pass.
    """

    def __init__(self, *, proportional: bool) -> None:
        self.proportional = proportional
        self._seconds: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._sizes: list[int] = []
        self.waits = Waits()
        self.growth = 1.0  # of what a step reads besides, see ``MixtureTimes``

    @property
    def known(self) -> bool:
        return bool(self._sizes)

    def learn(self, size: int, seconds: float) -> None:
        """Move the size's time towards a new measurement."""
        if size not in self._seconds:
            rest = self._rest(seconds)
            self._sizes.insert(bisect_left(self._sizes, size), size)
            self._seconds[size], self._seen[size] = rest, 1
            return
        expected = self.expected(size)
        self._seen[size] += 1
        weight = max(1 / self._seen[size], _SLOWEST)
        self._seconds[size] += weight * (_limited(seconds, expected) - expected)

    def observe_step(self, rows: int, experts: float | None = None) -> None:
        """Learn from a step, before its time, what it read besides; nothing here."""

    def expected(self, size: int) -> float:
        """Return the seconds that the step just observed should have taken."""
        return self(size)

    def __call__(self, size: int) -> float:
        """Return the seconds for ``size``; 0 before any measurement."""
        if size in self._seconds:
            return self._seconds[size]
        at = bisect_left(self._sizes, size)
        if at == 0:
            return self._below(size)
        if at < len(self._sizes):
            return self._line(self._sizes[at - 1], self._sizes[at], size)
        if at > 1:
            # A larger step never takes less time; a line that falls is noise.
            last = self._seconds[self._sizes[-1]]
            return max(self._line(self._sizes[-2], self._sizes[-1], size), last)
        return self._below(size)

    def table(self, largest: int) -> list[float]:
        """Return the seconds for sizes 0 to ``largest``, none less than for a smaller size.

        This is isotonic regression (pool adjacent violators), weighted by the number of measurements: a
        single measurement of a rare size must not distort the others.
        """
        pools: list[tuple[float, float, int]] = []  # seconds, weight, number of sizes
        for size in range(largest + 1):
            pool = (self(size), float(min(self._seen.get(size, 0), _MOST_SEEN)) or _UNSEEN, 1)
            while pools and pools[-1][0] > pool[0]:
                pool = _pooled(pools.pop(), pool)
            pools.append(pool)
        return [seconds for seconds, _, sizes in pools for _ in range(sizes)]

    def _rest(self, seconds: float) -> float:
        """Return what is kept of the first time of a size."""
        return seconds

    def _below(self, size: int) -> float:
        """Return the seconds for ``size`` from the smallest measured size alone."""
        if not self._sizes:
            return 0.0
        first = self._sizes[0]
        seconds = self._seconds[first]
        return seconds * size / first if self.proportional and first else seconds

    def _line(self, low: int, high: int, size: int) -> float:
        a, b = self._seconds[low], self._seconds[high]
        return a + (b - a) * (size - low) / (high - low)


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
            self.growth += _GROWTH * (growth - self.growth)

    def expected(self, size: int) -> float:
        return super().__call__(size) + self._price * self._experts

    def __call__(self, size: int) -> float:
        return super().__call__(size) + self._price * float(max(size, 1) ** self.growth)

    @property
    def _price(self) -> float:
        return self._ratio * super().__call__(1)

    def _rest(self, seconds: float) -> float:
        if not self.known:
            return seconds / (1 + self._ratio * self._experts)
        return seconds - self._price * self._experts


def _pooled(
    lower: tuple[float, float, int], upper: tuple[float, float, int]
) -> tuple[float, float, int]:
    weight = lower[1] + upper[1]
    return (lower[0] * lower[1] + upper[0] * upper[1]) / weight, weight, lower[2] + upper[2]


class Pace:
    """The machine's current slowness relative to its usual pace, 1.

    Other work and heat slow all steps alike. Without the pace, times of depths that are not in use would
    be outdated, and comparisons with them wrong.
    """

    def __init__(self) -> None:
        self.value = 1.0

    def observe(self, steps: list[tuple[Times, int, float]]) -> None:
        """Learn the pace, then the times, from a round's steps (times, size, measured seconds)."""
        steps = [
            (times, size, times.waits.remove(seconds, times.expected(size) * self.value))
            for times, size, seconds in steps
        ]
        if all(times.known for times, _, _ in steps):
            expected = sum(times.expected(size) for times, size, _ in steps)
            measured = sum(seconds for _, _, seconds in steps)
            if expected > 0 and measured > 0:
                current = _limited(measured / expected, self.value)
                self.value *= (current / self.value) ** _PACE
        for times, size, seconds in steps:
            times.learn(size, seconds / self.value)


def _limited(value: float, usual: float) -> float:
    """Return ``value`` limited to a factor of ``_OUTLIER`` around ``usual``."""
    return min(max(value, usual / _OUTLIER), usual * _OUTLIER) if usual > 0 else value
