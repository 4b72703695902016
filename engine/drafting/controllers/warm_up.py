"""Measure once how long verification takes, before any round does."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from engine.drafting.controllers.stored_times import StoredTimes
from engine.drafting.controllers.times import MixtureTimes, Times
from engine.models.base import Model
from engine.values import MAX_ROWS

ROWS = (1, 2, 4, 8, MAX_ROWS)
"""Rows of a step whose times are measured, here and in benches."""
_PAST = 128
_REPEATS = 5
_LIMIT_S = 0.5


def warm_up(
    model: Model,
    verify: Times,
    clock: Callable[[], float] = perf_counter,
    stored: StoredTimes | None = None,
) -> None:
    """Teach ``verify`` its times by rows, the ``stored`` ones or else new ones, which are then stored.

    Those of mixtures are measured each time: what their rows read is not stored."""
    stored = None if isinstance(verify, MixtureTimes) else stored
    seconds = {} if stored is None else stored.read()
    if not seconds:
        seconds = _measure(model, verify, clock)
        if stored is not None and seconds:
            stored.write(seconds)
    for rows, taken in seconds.items():
        verify.observe_step(rows, rows**verify.growth)
        verify.learn(rows, taken)


def _measure(model: Model, verify: Times, clock: Callable[[], float]) -> dict[int, float]:
    """Return the seconds of a step by rows, after some tokens; empty if the context is too short.

    Takes half a second, or as long as one measurement of every row count. Row counts alternate, so that
    a drifting pace affects all alike, and the least counts: others waited, while the app starts mostly
    for the browser. The first pass allocates what later ones reuse.
    """
    past = min(_PAST, model.info.context - max(ROWS))
    if past < 1:
        return {}
    state = model.new_state(past + max(ROWS))
    tokens = [index % model.info.vocabulary for index in range(past + max(ROWS))]
    began, first = clock(), min(past, MAX_ROWS)
    model.forward(tokens[:first], state, last=0)
    if (clock() - began) * past / first > _LIMIT_S:
        past = first  # in so large a model weights dominate, and the text's length hardly matters
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
            float(logits[-1, -1])  # waits for an asynchronous device
            seconds[rows].append(clock() - started)
            verify.observe_step(rows)
            state.commit(())
    return {rows: min(taken) for rows, taken in seconds.items()}
