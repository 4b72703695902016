"""Continuous batching: one forward pass of the target for several requests.

A pass verifies up to 16 rows of any requests, and prefills a chunk of one prompt beside them. The chunk
is small enough that replies keep their speed. No request's bits depend on the others in the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import torch

from engine.decoding.work import PrefillWork, VerifyWork, WorkItem, YieldWork
from engine.drafting.controllers.batch import BatchController
from engine.machine.devices import device_errors
from engine.models.base import BatchModel
from engine.values import MAX_ROWS


class Batcher:
    """Does the work items of running requests, some in each pass."""

    def __init__(self, model: BatchModel, batch: BatchController) -> None:
        """``batch`` is told what each shared pass took, and says how large a prefill chunk may be."""
        self._model, self._batch = model, batch
        self._by_age = False

    def serve(self, waits: Sequence[WorkItem]) -> None:
        """Makes at least one of ``waits`` ready, the longest waiting first. What fails is in its
        ``error``."""
        waits = sorted(waits, key=lambda wait: wait.number)
        chores = [wait for wait in waits if isinstance(wait, YieldWork)]
        verifying = _fitting([wait for wait in waits if isinstance(wait, VerifyWork)])
        reading = self._next([wait for wait in waits if isinstance(wait, PrefillWork)])
        if chores:
            chores[0].ready = True
        if len(verifying) == 1 and reading is None:
            verifying[0].ready = True  # whoever waits computes it, as if nobody else was there
        elif verifying:
            self._pass(verifying, reading)
        elif reading is not None:
            _attempt(reading, lambda: reading.read(self._rows))

    @property
    def _rows(self) -> int:
        return self._model.batch_rows

    def _next(self, readings: Sequence[PrefillWork]) -> PrefillWork | None:
        """By turns the one that is through first, and the one that waits longest: a short prompt does not
        wait for a long one, nor a long one for ever."""
        for each in readings:
            _attempt(each, each.copy_prefix)
        readings = [each for each in readings if not each.ready]
        if len(readings) < 2:
            return readings[0] if readings else None
        self._by_age = not self._by_age
        return readings[0] if self._by_age else min(readings, key=lambda each: each.left)

    def _pass(self, verifying: Sequence[VerifyWork], reading: PrefillWork | None) -> None:
        began = perf_counter()
        rows = sum(each.rows for each in verifying)
        read, found = None, None
        try:
            with device_errors(torch.device(self._model.info.device)):
                parts = [each.entry() for each in verifying]
                if reading is not None:
                    read = reading.entry(self._batch.prompt_rows(rows, self._rows))
                found = self._model.forward_batch([*parts, *(() if read is None else (read,))])
        except Exception:
            pass  # whose fault it was shows when each is alone; the others go on
        if found is None:  # not inside ``except``: there the error holds what the pass had made
            for each in verifying:
                each.ready = True
            if reading is not None:
                _attempt(reading, lambda: reading.read(self._rows))
            return
        for each, logits in zip(verifying, found, strict=False):
            each.take(logits, began)
        if reading is not None and read is not None:
            reading.take(read)
        else:
            self._batch.passed(rows, perf_counter() - began)


def _fitting(verifying: Sequence[VerifyWork]) -> list[VerifyWork]:
    """The first of them whose rows are verified in one pass; at least one, which drafted no more."""
    found, rows = list[VerifyWork](), 0
    for each in verifying:
        if rows + each.rows <= MAX_ROWS:
            found.append(each)
            rows += each.rows
    return found


def _attempt(wait: WorkItem, work: Callable[[], None]) -> None:
    try:
        work()
    except Exception as error:
        wait.error, wait.ready = error, True
