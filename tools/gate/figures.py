"""The figures of the gate, and the values that a run measured of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from engine.drafting.controllers.warm_up import ROWS


class Limit(StrEnum):
    """What a time waits for: reading memory, or computing. Each repeat measures both beside it."""

    READING = "reading"
    COMPUTING = "computing"


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured. ``slack``: the relative difference that says nothing, beside the spread.

    ``limit`` is None for what does not depend on the machine's speed.
    """

    name: str
    unit: str
    slack: float
    limit: Limit | None = None
    more_is_better: bool = False

    def cost(self, value: float) -> float:
        """Return ``value`` so that less is better."""
        return 1 / value if self.more_is_better and value else value


def _time(name: str, unit: str, limit: Limit, *, speed: bool = False) -> Figure:
    return Figure(name, unit, 0.03, limit, more_is_better=speed)


WORDS, PIP_WORDS = "replies that differ", "replies that differ, Pip"
PLAIN, DRAFT, BEST = "plain", "draft, auto", "best, auto"
PROMPT, T_DRAFT = "prompt", "T_draft"
FIRST, PIP_FIRST = "first token", "first token, Pip"
MEMORY, KL, TESTS, FAILED, LINES = "peak memory", "KL", "tests", "tests failed", "lines"
PIP_FORMATS = ("int8", "q4", "nf4")

FIGURES = (
    Figure(WORDS, "", 0),
    Figure(PIP_WORDS, "", 0),
    *(_time(f"T({rows})", "ms", Limit.READING) for rows in ROWS),
    _time(T_DRAFT, "ms", Limit.READING),
    _time(PROMPT, "tokens/s", Limit.COMPUTING, speed=True),
    *(_time(name, "tokens/s", Limit.READING, speed=True) for name in (PLAIN, DRAFT, BEST)),
    _time(FIRST, "s", Limit.COMPUTING),
    _time(PIP_FIRST, "s", Limit.COMPUTING),
    Figure(MEMORY, "MB", 0.02),
    Figure(KL, "nat", 0.02),
    *(Figure(f"{KL}, Pip in {name}", "nat", 0.02) for name in PIP_FORMATS),
    Figure(TESTS, "s", 0.1, Limit.COMPUTING),
    Figure(FAILED, "", 0),
    Figure(LINES, "", 0.0025),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a run ran on. Speeds compare where ``processor`` and ``cores`` are the same."""

    processor: str
    cores: int


@dataclass(slots=True)
class Run:
    """What a run measured of one checkout: one value, or one for each repeat.

    ``limits``: for each repeat, GB/s read and GFLOP/s computed, right before it. ``others``: the share of
    the processors that other programs used then.
    """

    commit: str
    date: str
    pair: str
    machine: Machine
    limits: dict[Limit, list[float]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, values: dict[str, float]) -> None:
        """Append a value to each of these figures."""
        for name, value in values.items():
            self.figures.setdefault(name, []).append(value)

    def scaled(self, figure: Figure) -> Sequence[float]:
        """Return costs that a machine's changing speed leaves alone: time x bandwidth, or the same of a
        speed. A figure without repeats takes the run's mean of the limit."""
        costs = [figure.cost(value) for value in self.figures.get(figure.name, ())]
        limits = self.limits.get(figure.limit, []) if figure.limit else []
        if not limits:
            return costs
        if len(costs) != len(limits):
            limits = [sum(limits) / len(limits)] * len(costs)
        return [cost * limit for cost, limit in zip(costs, limits, strict=True)]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Run:
        return cls(
            **value
            | {
                "machine": Machine(**value["machine"]),
                "limits": {Limit(name): found for name, found in value["limits"].items()},
            }
        )
