"""T_verify(M) / T_verify(1): the relative cost of verifying M tokens in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import perf_counter

from engine.drafting.controllers.warm_up import ROWS
from engine.models.base import Model


def measure(model: Model, rows: Sequence[int] = ROWS, *, repeats: int = 30) -> dict[int, float]:
    """Return the time of a step with M rows, relative to the first of ``rows``; see ``step_times``."""
    typical = step_times(model, rows, repeats=repeats)
    return {count: time / typical[rows[0]] for count, time in typical.items()}


def step_times(
    model: Model, rows: Sequence[int] = ROWS, *, past: int = 128, repeats: int = 30
) -> dict[int, float]:
    """Return the median seconds of a step with M rows after ``past`` cached tokens.

    The row counts alternate, so that a drifting machine slows all of them alike.
    """
    past = min(past, model.info.context - max(rows))
    state = model.new_state(model.info.context)
    tokens = [index % model.info.vocabulary for index in range(past + max(rows))]
    model.forward(tokens[:past], state, last=0)
    seconds: dict[int, list[float]] = {count: [] for count in rows}
    for _ in range(repeats + 3):
        for count in rows:
            started = perf_counter()
            model.forward(tokens[past : past + count], state, last=count, final=False)
            seconds[count].append(perf_counter() - started)
            state.commit(())
    return {count: median(times[3:]) for count, times in seconds.items()}  # 3 to warm up
