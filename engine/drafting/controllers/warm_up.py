"""What verifying takes on this machine, measured once before any round tells."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

from engine.drafting.controllers.stored_times import StoredTimes
from engine.drafting.controllers.times import Times
from engine.models.base import Model
from engine.values import MAX_ROWS

ROWS = (1, 2, 4, 8, MAX_ROWS)
"""Rows of a step for which its time is measured, here and by benches."""
_PAST = 128
_REPEATS = 5
_LIMIT_S = 0.5


def warm_up(
    model: Model,
    verify: Times,
    clock: Callable[[], float] = perf_counter,
    kept: StoredTimes | None = None,
) -> None:
    """Teaches ``verify`` seconds by rows: what is ``kept``, else what is measured now, and then kept."""
    seconds = {} if kept is None else kept.read()
    if not seconds:
        seconds = measured(model, clock)
        if kept is not None and seconds:
            kept.write(seconds)
    for rows, taken in seconds.items():
        verify.learn(rows, taken)


def measured(model: Model, clock: Callable[[], float]) -> dict[int, float]:
    """Seconds by rows behind some cached tokens: for half a second, or as long as it takes to measure
    every row count once. Empty where the context is too short.

    Row counts alternate, so that a drifting machine slows all alike, and medians count. The first
    pass builds what later ones reuse; it counts only where there is no time for another.
    """
    past = min(_PAST, model.info.context - max(ROWS))
    if past < 1:
        return {}
    state = model.new_state(past + max(ROWS))
    tokens = [index % model.info.vocabulary for index in range(past + max(ROWS))]
    began, first = clock(), min(past, MAX_ROWS)
    model.forward(tokens[:first], state, last=0)
    if (clock() - began) * past / first > _LIMIT_S:
        past = first  # so large a model is busy with its weights, and hardly looks back
    elif past > first:
        model.forward(tokens[first:past], state, last=0)
    seconds: dict[int, list[float]] = {rows: [] for rows in ROWS}
    began = clock()
    for repeat in range(_REPEATS + 1):
        taken = clock() - began
        if repeat and taken + taken / repeat > _LIMIT_S:
            break
        for rows in ROWS:
            started = clock()
            logits = model.forward(tokens[past : past + rows], state, last=rows, final=False)
            float(logits[-1, -1])  # waits for a device that computes on its own
            seconds[rows].append(clock() - started)
            state.commit(())
    return {rows: median(taken[1:] or taken) for rows, taken in seconds.items()}
