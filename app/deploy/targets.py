"""The fewest GPUs that reach a service's targets: times to and between tokens, and requests a second.

By Little's law (1961) a copy holds as many requests at once as it takes on and keeps: users = rate x
time in the copy. Speeds are those of ``estimate.load``, for the mean; a percentile is higher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from app.deploy.estimate.memory import Layout
from app.deploy.estimate.speed import Load, Outcome, Setup, outcome

MOST_AT_ONCE = 4096
"""Requests of one copy at once, at most."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What a service has to reach: ``ttft`` and ``itl``, milliseconds to the first token and between
    tokens (means); ``rps``: requests a second; ``isl`` and ``osl``: tokens of a prompt and of a
    reply."""

    isl: int
    osl: int
    rps: float | None = None
    ttft: float | None = None
    itl: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """What is to be reached, by name."""
        given = {"rps": self.rps, "ttft": self.ttft, "itl": self.itl}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Service:
    """What ``layout`` is expected to reach with ``users`` of all copies at once; ``ttft`` and ``itl`` in
    milliseconds, ``rps`` requests a second."""

    layout: Layout
    users: int
    ttft: float
    itl: float
    rps: float

    def misses(self, targets: Targets) -> list[str]:
        """Return the targets that are missed, with what is reached."""
        told = []
        if targets.rps is not None and self.rps < targets.rps:
            told.append(f"{self.rps:,.2f} of {targets.rps:g} requests/s")
        if targets.ttft is not None and self.ttft > targets.ttft:
            told.append(f"{self.ttft:,.0f} instead of {targets.ttft:g} ms to the first token")
        if targets.itl is not None and self.itl > targets.itl:
            told.append(f"{self.itl:,.1f} instead of {targets.itl:g} ms between tokens")
        return told


def service(
    setup: Setup, layout: Layout, targets: Targets, slots: int, users: int | None
) -> Service:
    """Return what ``layout`` reaches, with room for ``slots`` requests in each copy: with the fewest
    copies that reach a rate, else with all copies and ``users`` at once."""
    low, high = 1 if users is None else layout.replicas, layout.replicas
    while low < high:
        middle = (low + high) // 2
        if _service(setup, replace(layout, replicas=middle), targets, slots, users).misses(targets):
            low = middle + 1
        else:
            high = middle
    return _service(setup, replace(layout, replicas=low), targets, slots, users)


def _service(
    setup: Setup, layout: Layout, targets: Targets, slots: int, users: int | None
) -> Service:
    copies = layout.replicas
    if users is not None:
        here = layout.users(users)
    else:
        here = _at_once(setup, targets, (targets.rps or 0) / copies, min(slots, MOST_AT_ONCE))
    found = _outcome(setup, targets, here, slots)
    rate = copies * found.total / targets.osl
    return Service(layout, here * copies, found.wait * 1000, 1000 / found.user, rate)


def _at_once(setup: Setup, targets: Targets, rate: float, most: int) -> int:
    """Return the fewest requests at once that one copy answers ``rate`` a second with; ``most`` if none
    do."""
    low, high = 1, max(1, most)
    while low < high:
        middle = (low + high) // 2
        if _outcome(setup, targets, middle, most).total / targets.osl >= rate:
            high = middle
        else:
            low = middle + 1
    return low


def with_bursts(mean: int) -> int:
    """Return how many requests to admit at once where ``mean`` are there on average: of those that come
    at random their number is Poisson's, and it is seldom three standard deviations above."""
    return math.ceil(mean + 3 * math.sqrt(mean))


def _outcome(setup: Setup, targets: Targets, users: int, slots: int) -> Outcome:
    return outcome(setup, Load(users, targets.isl, targets.osl), slots, setup.depth)
