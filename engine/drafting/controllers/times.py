"""How long a step takes by its size, learnt from measurements on a machine whose pace drifts."""

from __future__ import annotations

from bisect import bisect_left

_SLOWEST = 0.1
"""What a new measurement counts for once there are many."""
_MOST_SIGHTINGS, _UNSEEN = 10, 0.1
"""What a size weighs where sizes are levelled: how often it was seen, up to so often; and unseen."""
_PACE = 0.2
_WAITS = 0.03
"""What a call counts for among the last ones: about thirty."""
_OUTLIER = 2.0
"""A measurement counts as at most this much above or below what was expected."""


class Waits:
    """What a call waits on average for something that it does not compute: a core, mostly.

    Where something else has the cores, one call in a few takes many times as long as it computes,
    whatever it computes. As a slower pace that would make large steps dear, as the time of one size
    that size.
    """

    def __init__(self) -> None:
        self.mean = 0.0  # seconds

    def without(self, seconds: float, expected: float) -> float:
        """``seconds`` of a call as far as they may be work; learns the rest. ``expected`` 0: unknown."""
        work = min(seconds, _OUTLIER * expected) if expected > 0 else seconds
        self.mean += _WAITS * (seconds - work - self.mean)
        return work


class Times:
    """Seconds for each size, at pace 1. Sizes that were never seen lie on lines between others.

    ``proportional``: below the smallest known size the line goes through zero, as for drafting
    token by token; else it is flat, as for verifying many tokens in one pass. ``waits`` come on top.
    """

    def __init__(self, *, proportional: bool) -> None:
        self.proportional = proportional
        self._seconds: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._sizes: list[int] = []
        self.waits = Waits()

    @property
    def known(self) -> bool:
        return bool(self._sizes)

    def learn(self, size: int, seconds: float) -> None:
        """Moves the size's time towards a new measurement."""
        if size not in self._seconds:
            self._sizes.insert(bisect_left(self._sizes, size), size)
            self._seconds[size], self._seen[size] = seconds, 1
            return
        old = self._seconds[size]
        self._seen[size] += 1
        rate = max(1 / self._seen[size], _SLOWEST)
        self._seconds[size] = old + rate * (_within(seconds, old) - old)

    def __call__(self, size: int) -> float:
        """Seconds for ``size``; 0 where nothing is known yet."""
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
        """Seconds for sizes 0 to ``largest``, none less than for a smaller size.

        Sizes that contradict each other are levelled: the one that was seen more often counts more.
        A single measurement of a rare size would otherwise make all others look dear, or cheap.
        """
        levels: list[tuple[float, float, int]] = []  # seconds, how often seen, sizes in this level
        for size in range(largest + 1):
            level = (self(size), float(min(self._seen.get(size, 0), _MOST_SIGHTINGS)) or _UNSEEN, 1)
            while levels and levels[-1][0] > level[0]:
                level = _levelled(levels.pop(), level)
            levels.append(level)
        return [seconds for seconds, _, sizes in levels for _ in range(sizes)]

    def _below(self, size: int) -> float:
        """Where at most one end of a line is known."""
        if not self._sizes:
            return 0.0
        first = self._sizes[0]
        seconds = self._seconds[first]
        return seconds * size / first if self.proportional and first else seconds

    def _line(self, low: int, high: int, size: int) -> float:
        a, b = self._seconds[low], self._seconds[high]
        return a + (b - a) * (size - low) / (high - low)


def _levelled(
    lower: tuple[float, float, int], upper: tuple[float, float, int]
) -> tuple[float, float, int]:
    """Two levels as one: their mean by how often each was seen."""
    seen = lower[1] + upper[1]
    return (lower[0] * lower[1] + upper[0] * upper[1]) / seen, seen, lower[2] + upper[2]


class Pace:
    """How slow the machine is just now, 1 being its usual pace.

    Other work and heat slow all steps alike. Without this, the times of depths that are not in use
    would be those of another hour, and the comparison with them wrong.
    """

    def __init__(self) -> None:
        self.value = 1.0

    def observe(self, steps: list[tuple[Times, int, float]]) -> None:
        """Measured seconds of (times, size) in one round: first the pace, then the times learn."""
        steps = [
            (times, size, times.waits.without(seconds, times(size) * self.value))
            for times, size, seconds in steps
        ]
        if all(times.known for times, _, _ in steps):
            expected = sum(times(size) for times, size, _ in steps)
            measured = sum(seconds for _, _, seconds in steps)
            if expected > 0 and measured > 0:
                now = _within(measured / expected, self.value)
                self.value *= (now / self.value) ** _PACE
        for times, size, seconds in steps:
            times.learn(size, seconds / self.value)


def _within(value: float, usual: float) -> float:
    """``value`` without the part of it that must be an accident."""
    return min(max(value, usual / _OUTLIER), usual * _OUTLIER) if usual > 0 else value
