"""Estimate a ratio from a few pairs of runs: median, confidence interval, and when to stop.

One slow second of a machine bends a mean; it moves a median of pairs hardly at all. The range is the
order-statistic interval of the median (the sign test turned round; Conover, Practical Nonparametric
Statistics, 3.2): of n ratios in order, the k-th from below and the k-th from above hold the true median
with probability 1 - 2 P(Binomial(n, 1/2) < k), whatever the ratios' distribution is.

The range is of this sitting alone: where a process lies in memory, or who else uses the machine, is the
same for all of its pairs and another time is not. Nor does another race repeat a verdict that this one
barely gave. So a winner needs a range that excludes 1 even if it is twice as wide, by ``MARGIN``.

Whoever adds pairs until a range suits him sees chance in the end. So each further look asks for twice
the certainty of the last: the chances to be wrong are 1/16, 1/32, 1/64, ... and stay below 1/8 together,
however often somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, comb
from statistics import median

PAIRS = 5
"""Pairs between two looks. With five, all that were measured make the range: 93.75 %."""
FIRST_ERROR: float = 2 * 0.5**PAIRS
"""The probability that the range of the first five misses the median."""

MARGIN = 1.03
"""A factor between two speeds of one program in two sittings; the gate allows its times as much."""
MOST_SPREAD = 4.0
"""Maximum factor by which a speed may change between equal runs; above it, the machine is at fault.
A run of Pip takes a fifth of a second: on an idle laptop the browser alone changes it 2.4-fold."""
MOST_TAKEN = 0.5
"""Share of the processors that other programs may take. The browser that shows a race is one of
them, and takes from both sides alike."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Disturbances of a measurement. ``spread``: the factor by which a side's speed on one prompt changed
    between runs. ``taken``: the share of the processors that other programs used meanwhile."""

    spread: float = 1.0
    taken: float = 0.0

    @property
    def too_much(self) -> bool:
        """True if the noise is too high to compare the two sides."""
        return self.spread > MOST_SPREAD or self.taken > MOST_TAKEN


@dataclass(frozen=True, slots=True)
class Estimate:
    """The ratio of two speeds, as measured in pairs.

    ``low`` and ``high`` hold the true median with probability ``level``, or more. ``enough``: whether
    that is the certainty asked for at so many pairs.
    """

    ratios: tuple[float, ...]
    median: float
    low: float
    high: float
    level: float
    enough: bool

    @property
    def leans(self) -> int:
        """1 if the ratio was above 1 in this sitting, -1 if below, 0 while the range includes 1."""
        return self._beyond(1.0, 1.0)

    @property
    def favours(self) -> int:
        """The same where another sitting would agree: twice the range excludes 1, by a margin."""
        return self._beyond((self.high / self.low) ** 0.5, MARGIN)

    def _beyond(self, wider: float, margin: float) -> int:
        if not self.enough:
            return 0
        return (self.low / wider > margin) - (self.high * wider < 1 / margin)

    @property
    def agreeing(self) -> int:
        """Return how many pairs agree with the verdict; without one, how many ratios are above 1."""
        return sum(ratio < 1 if self.leans < 0 else ratio > 1 for ratio in self.ratios)


def estimate(ratios: Sequence[float]) -> Estimate:
    """Estimate the median from the ``ratios`` of one or more pairs."""
    ordered, error = sorted(ratios), allowed_error(len(ratios))
    sure = [k for k in range(1, len(ordered) // 2 + 1) if missing(len(ordered), k) <= error]
    k = max(sure, default=1)
    missed = missing(len(ordered), k)
    return Estimate(
        ratios=tuple(ratios),
        median=median(ordered),
        low=ordered[k - 1],
        high=ordered[-k],
        level=1 - missed,
        enough=missed <= error,
    )


def spread(repeats: Iterable[Sequence[float]]) -> float:
    """Return the factor between slow and fast runs; each of ``repeats`` holds speeds of the same.

    Of many runs the extremes are left out, as ``estimate`` does.
    """
    made = estimate([one / median(same) for same in repeats for one in same])
    return made.high / made.low


def missing(count: int, k: int) -> float:
    """Return the probability that the ``k``-th of ``count`` from below and from above miss the median."""
    ways = sum(comb(count, below) for below in range(k))
    return min(1.0, 2 * ways / float(2**count))


def allowed_error(count: int) -> float:
    """Return the allowed error of the range of ``count`` pairs, which halves at every further look."""
    look = max(ceil(count / PAIRS), 1)
    return float(FIRST_ERROR * 0.5 ** (look - 1))
