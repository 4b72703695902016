"""Continuous batching: one forward pass of the target for several requests.

A pass verifies up to 16 rows of any requests, and prefills a chunk of one prompt beside them. The chunk
is small enough that replies keep their speed. No request's bits depend on the others in the pass.

On a GPU a prompt's bits depend on how it is cut, so prompts have passes of their own there, in the chunks
of requests that run alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter

import torch

from engine.decoding.context import PREFILL_CHUNK
from engine.decoding.work import PrefillWork, VerifyWork, WorkItem, YieldWork
from engine.drafting.controllers.batch import BatchController
from engine.machine.devices import device_errors
from engine.models.base import BatchModel
from engine.values import MAX_ROWS

log = logging.getLogger(__name__)


class Batcher:
    """Does the work items of running requests, some in each pass."""

    def __init__(
        self, model: BatchModel, controller: BatchController, *, rounds: bool = False
    ) -> None:
        """``controller`` limits prefill chunks, and learns the times of passes. ``rounds``: requests that
        run alone run rounds on a GPU, as graphs, of whose times a pass says nothing."""
        self._model, self._controller, self._rounds = model, controller, rounds
        self._oldest_first = False

    def run(self, items: Sequence[WorkItem]) -> None:
        """Make at least one of ``items`` ready, oldest first. An item that fails has its ``error``."""
        items = sorted(items, key=lambda item: item.number)
        yielded = [item for item in items if isinstance(item, YieldWork)]
        verifies = _fitting([item for item in items if isinstance(item, VerifyWork)])
        prefill = self._next_prefill([item for item in items if isinstance(item, PrefillWork)])
        if yielded:
            yielded[0].ready = True
        beside = None if self._rounds else prefill
        if len(verifies) == 1 and beside is None:
            verifies[0].ready = True  # its request computes it, as if it ran alone
        elif verifies:
            self._pass(verifies, beside)
        if prefill is not None and (beside is None or not verifies):
            self._prefill_alone(prefill)

    def _next_prefill(self, items: Sequence[PrefillWork]) -> PrefillWork | None:
        """Return in turn the shortest and the oldest, so that neither waits for ever."""
        for item in items:
            _attempt(item, item.copy_prefix)
        items = [item for item in items if not item.ready]
        if len(items) < 2:
            return items[0] if items else None
        self._oldest_first = not self._oldest_first
        return items[0] if self._oldest_first else min(items, key=lambda item: item.left)

    def _prefill_alone(self, item: PrefillWork) -> None:
        rows = PREFILL_CHUNK if self._rounds else self._model.batch_rows
        _attempt(item, lambda: item.compute(rows))

    def _pass(self, verifies: Sequence[VerifyWork], prefill: PrefillWork | None) -> None:
        began = perf_counter()
        rows = sum(item.rows for item in verifies)
        chunk, logits = None, None
        try:
            with device_errors(torch.device(self._model.info.device)):
                entries = [item.entry() for item in verifies]
                if prefill is not None:
                    most = self._controller.prefill_rows(rows, self._model.batch_rows)
                    chunk = prefill.entry(most)
                    entries.append(chunk)
                logits = self._model.forward_batch(entries)
        except Exception:  # each request then computes alone, and the one at fault fails alone
            log.warning("A pass for several requests failed", exc_info=True)
        if logits is None:  # not inside ``except``, where the error keeps the pass's tensors alive
            for item in verifies:
                item.ready = True
            if prefill is not None:
                self._prefill_alone(prefill)
            return
        for item, found in zip(verifies, logits, strict=False):
            item.finish(found, began)
        if prefill is not None and chunk is not None:
            prefill.finish(chunk)
        elif not self._rounds:
            self._controller.observe_pass(rows, perf_counter() - began)


def _fitting(items: Sequence[VerifyWork]) -> list[VerifyWork]:
    """Return the oldest item, and the next ones whose rows fit its pass."""
    fitting, rows = list[VerifyWork](), 0
    for item in items:
        if not fitting or rows + item.rows <= MAX_ROWS:
            fitting.append(item)
            rows += item.rows
    return fitting


def _attempt(item: WorkItem, work: Callable[[], None]) -> None:
    try:
        work()
    except Exception as error:
        item.error, item.ready = error, True
