"""What got worse between two runs by more than its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from engine.bench.reports.paired import estimate
from tools.gate.figures import FIGURES, Figure, Run


class Verdict(StrEnum):
    SAME = "same"
    WORSE = "WORSE"
    BETTER = "better"
    UNKNOWN = ""
    """Not measured in both, or a speed of another machine or pair."""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure in both runs. ``change``: how many times as costly it is now, above 1 is worse; None
    where that says nothing."""

    figure: Figure
    before: Sequence[float]
    now: Sequence[float]
    change: float | None
    verdict: Verdict


def compare(before: Run, now: Run, *, in_turns: bool = False) -> list[Line]:
    """Compare each figure of two runs. ``in_turns``: they took turns, repeat by repeat."""
    return [_line(figure, before, now, in_turns) for figure in FIGURES]


def alike(before: Run, now: Run) -> bool:
    """Return whether speeds of the two compare at all."""
    return before.machine == now.machine and before.pair == now.pair


def _line(figure: Figure, before: Run, now: Run, in_turns: bool) -> Line:
    values = before.figures.get(figure.name, []), now.figures.get(figure.name, [])
    comparable = before.pair == now.pair if figure.limit is None else alike(before, now)
    if not all(values) or not comparable:
        return Line(figure, *values, None, Verdict.UNKNOWN)
    if in_turns and len(values[0]) == len(values[1]) > 1:
        return Line(figure, *values, *_paired(figure, *values))
    return Line(figure, *values, *_apart(before.scaled(figure), now.scaled(figure), figure.slack))


def _paired(figure: Figure, before: Sequence[float], now: Sequence[float]) -> tuple[float, Verdict]:
    """Judge the ratios within repeats: worse where the range of their median lies beyond the slack."""
    pairs = zip(before, now, strict=True)
    found = estimate([figure.cost(one) / figure.cost(other) for other, one in pairs])
    if found.enough and found.low > 1 + figure.slack:
        return found.median, Verdict.WORSE
    if found.enough and found.high < 1 / (1 + figure.slack):
        return found.median, Verdict.BETTER
    return found.median, Verdict.SAME


def _apart(
    before: Sequence[float], now: Sequence[float], slack: float
) -> tuple[float | None, Verdict]:
    """Judge costs of two runs: worse where the ranges of their repeats do not meet, slack included."""
    middle = median(before)
    change = median(now) / middle if middle else None
    if min(now) > max(before) * (1 + slack):
        return change, Verdict.WORSE
    if max(now) * (1 + slack) < min(before):
        return change, Verdict.BETTER
    return change, Verdict.SAME
