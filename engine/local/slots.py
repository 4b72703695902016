"""Slots: each has the state and the proposers of one sequence, and serves one request at a time.

A request gets a slot that already holds the beginning of its text, else a free one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from time import perf_counter

from engine.api import CacheListener
from engine.decoding.context import PREFILL_CHUNK, Context, common_prefix
from engine.decoding.device import drafting_within
from engine.decoding.proposer import Proposer
from engine.decoding.target import Target
from engine.decoding.work import PrefillWork, WorkItem, YieldWork
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.events import Prefilled
from engine.local.run import Run
from engine.models.base import Model
from engine.request import Speculation
from engine.vision.encoder import ImageEncoder

_LOOKS, _LOOKS_BESIDE_OTHERS = 0.02, 0.001
"""Seconds between two looks whether an image is computed, alone and while other requests run."""


class Slot:
    """The target's state and the proposers of one sequence, kept between requests for prefix reuse."""

    def __init__(
        self,
        model: Model,
        resources: Resources,
        *,
        captures: bool,
        images: ImageEncoder | None = None,
    ) -> None:
        """``captures``: see ``Target``. ``images`` computes those of prompts."""
        self.target = Target(model, resources.aux_layers, captures=captures)
        self.resources = replace(resources, backbone=self.target) if resources.heads else resources
        self._images = images
        self.busy = False
        self.used = 0  # grows with each use
        self.undrafted = 0  # see ``BatchMember``
        self._proposers: dict[str, tuple[object, Proposer]] = {}  # with their options

    def shared(self, keys: list[int]) -> int:
        """Return the length of the prefix of ``keys`` that the slot holds."""
        return common_prefix(self.target.keys, keys)

    def proposer(self, speculation: Speculation) -> Proposer:
        """Return the proposer; a new one only if its options differ from the last request's."""
        options = proposers.check(speculation.proposer, speculation.options, self.resources)
        previous, proposer = self._proposers.get(speculation.proposer, (None, None))
        if proposer is None or previous != options:
            if proposer is not None:
                self._discard(proposer)
            proposer = proposers.create(speculation.proposer, speculation.options, self.resources)
            self._proposers[speculation.proposer] = options, proposer
        return proposer

    def prefill(
        self,
        context: Context,
        reuse: bool,
        cancelled: Callable[[], bool],
        copy_into: Callable[[list[int]], None] | None,
    ) -> Generator[WorkItem, None, Prefilled]:
        """Prefill all tokens but the pending one in the target.

        Yields work items, between which other requests run. ``copy_into``: see ``PrefillWork``; None if
        no other request can run: nothing is yielded then.
        """
        started = perf_counter()
        if not reuse:
            self.target.clear()
        self.target.reuse(context.keys[:-1])
        work = PrefillWork(self.target, context, copy_into if reuse else None)
        yield from self._see(context, work, cancelled, alone=copy_into is None)
        while work.left and not cancelled():
            if copy_into is None:
                work.compute(PREFILL_CHUNK)
                continue
            work.copy_prefix()
            if not work.ready:
                yield work
                work.check()
        self.target.save_checkpoint()
        reused = self.target.length - work.computed
        return Prefilled(len(context.tokens), reused, perf_counter() - started)

    def _see(
        self, context: Context, work: PrefillWork, cancelled: Callable[[], bool], *, alone: bool
    ) -> Generator[WorkItem, None, None]:
        """Give the state the images of the prompt; those that it has taken in are not computed again."""
        state, images = self.target.state, self._images
        state.content = None
        if images is None or not context.has_images:
            return
        work.copy_prefix()
        work.ready = False
        wait = _LOOKS if alone else _LOOKS_BESIDE_OTHERS
        computing = images.content(context.prompt, self.target.length, cancelled, wait)
        while True:
            try:
                next(computing)
            except StopIteration as end:
                state.content = end.value
                return
            if not alone:
                yield YieldWork()

    def use(self, resources: Resources, kind: str) -> None:
        """Draft with ``resources``, whose head of ``kind`` is another one that reads the same hidden
        states. Proposers that run it are made anew."""
        self.resources = replace(resources, backbone=self.target)
        for name in tuple(self._proposers):
            if kind in proposers.drafts_with(name, resources.loaded):
                self._discard(self._proposers.pop(name)[1])

    def _discard(self, proposer: Proposer) -> None:
        """Release a proposer's memory, also what rounds on the device hold of it."""
        inside = drafting_within(proposer, None)
        if inside is not None and inside.draft is not None:
            self.target.forget_runner(inside.draft.drafter)
        proposer.close()

    def close(self) -> None:
        """Release the proposers' memory."""
        for _, proposer in self._proposers.values():
            proposer.close()
        self._proposers.clear()


log = logging.getLogger(__name__)

_WORTH = 8
"""Minimum shared prefix, in tokens, worth copying from another slot."""


class Slots:
    """Up to ``most`` slots, each made when it is first needed, or by ``all``."""

    def __init__(self, make: Callable[[], Slot], most: int) -> None:
        self.most, self._make = most, make
        self._slots = [make()]
        self._uses = count(1)
        self.listener: CacheListener | None = None

    @property
    def first(self) -> Slot:
        return self._slots[0]

    def all(self) -> list[Slot]:
        """Return all slots that there may be."""
        self._slots += [self._make() for _ in range(self.most - len(self._slots))]
        return self._slots

    @contextmanager
    def reserved(self, run: Run) -> Iterator[Slot]:
        """Reserve a slot for this run while it lasts."""
        keys = run.keys
        # A run that reuses nothing is a measurement: it always gets the same slot.
        first = not run.reuse_cache and not self.first.busy
        slot = self.first if first else self._choose(keys)
        slot.busy, slot.used = True, next(self._uses)
        self._publish(slot, keys[: slot.shared(keys)] if run.reuse_cache else ())
        try:
            yield slot
        finally:
            slot.busy = False
            self.publish(slot)

    def copy_into(self, to: Slot, keys: list[int]) -> None:
        """Copy the prefix of ``keys`` that another slot has to ``to``, which holds nothing else."""
        for slot in self._slots:
            if slot is not to and (shared := slot.shared(keys)) >= to.target.length + _WORTH:
                to.target.copy_prefix(slot.target, shared)

    def use(self, resources: Resources, kind: str) -> None:
        """See ``Slot.use``; while no slot is busy."""
        for slot in self._slots:
            slot.use(resources, kind)

    def publish(self, slot: Slot) -> None:
        """Send the listener the keys that ``slot`` holds now."""
        self._publish(slot, slot.target.keys)

    def close(self) -> None:
        """Release the proposers' memory, and publish that all slots are empty."""
        for slot in self._slots:
            slot.close()
            self._publish(slot, ())

    def _publish(self, slot: Slot, keys: Sequence[int]) -> None:
        if self.listener is None:
            return
        try:
            self.listener(self._slots.index(slot), keys)
        except Exception:  # replies must go on
            log.exception("the cache listener failed and is no longer called")
            self.listener = None

    def _choose(self, keys: list[int]) -> Slot:
        """Return the free slot that shares the longest prefix with ``keys``.

        If that is less than half of what the slot holds, the slot may be somebody's chat. Then return an
        unused slot, a new one, or the least recently used one, in this order.
        """
        if self.most == 1:
            return self._slots[0]
        free = [slot for slot in self._slots if not slot.busy]
        if free:
            best = max(free, key=lambda slot: (slot.shared(keys), -slot.used))
            if 2 * best.shared(keys) >= best.target.length > 0:
                return best
            oldest = min(free, key=lambda slot: slot.used)  # 0: unused
            if not oldest.used or len(self._slots) == self.most:
                return oldest
        assert len(self._slots) < self.most
        self._slots.append(self._make())
        return self._slots[-1]
