"""Compare the results with what this engine is meant to reach on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.gpu_bench.contender import DRAFT
from tools.gpu_bench.speed import DEPTH, GRAPHS, NAME, Speed
from tools.gpu_bench.steps import Bits, StepTime

STEP_GROWTH = 1.10
"""T(8) / T(1) of a whole step."""
SHARES = {"bf16": 0.80, "nf4": 0.65}
"""Least shares of the measured bandwidth, for a step of an 8B model."""
HOST_SHARE = 0.05
SPEED_UP = 2.8
"""Least ratio to plain decoding with a draft that is right at ``RIGHT`` of all tokens."""
RIGHT = 0.8
_EIGHT_BILLION = "8B"


@dataclass(frozen=True, slots=True)
class Check:
    """``met`` None: not measured."""

    expected: str
    found: str
    met: bool | None


def checks(steps: Sequence[StepTime], bits: Sequence[Bits], speeds: Sequence[Speed]) -> list[Check]:
    """Check each expectation in its worst case."""
    at = {(one.model, one.kind, one.rows): one for one in steps}
    growth = [
        at[model, kind, 8].times.median / one.times.median
        for (model, kind, rows), one in at.items()
        if rows == 1 and (model, kind, 8) in at
    ]
    results = [
        _most(f"T(8)/T(1) of a step at most {STEP_GROWTH:.2f}", growth, STEP_GROWTH, "{:.2f}"),
    ]
    for kind, share in SHARES.items():
        shares = [
            one.share
            for (model, weights, rows), one in at.items()
            if (weights, rows) == (kind, 1) and _EIGHT_BILLION in model
        ]
        text = f"an 8B step in {kind} at {share:.0%} of bandwidth at least"
        results.append(_least(text, shares, share, "{:.0%}"))
    ours = [one for one in speeds if one.engine == NAME]
    ours = [one for one in ours if one.detail.startswith(GRAPHS)] or ours
    hosts = [one.host_share for one in ours if one.host_share is not None]
    drafted = [
        one.ratio for one in ours if one.setting == DRAFT and one.right_share == RIGHT and one.ratio
    ]
    text = f"{RIGHT:g} right at depth {DEPTH}: at least {SPEED_UP:g} x plain"
    different = [float(one.different) for one in bits]
    return [
        *results,
        _most(f"the host takes under {HOST_SHARE:.0%} of a round", hosts, HOST_SHARE, "{:.0%}"),
        _least(text, drafted, SPEED_UP, "{:.2f}"),
        _most("bits equal without exception", different, 0, "{:.0f} rows differ"),
    ]


def _most(expected: str, values: Sequence[float], limit: float, shown: str) -> Check:
    if not values:
        return Check(expected, "-", None)
    return Check(expected, shown.format(max(values)), max(values) <= limit)


def _least(expected: str, values: Sequence[float], limit: float, shown: str) -> Check:
    if not values:
        return Check(expected, "-", None)
    return Check(expected, shown.format(min(values)), min(values) >= limit)
