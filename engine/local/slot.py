"""A slot: the state and the proposers of one sequence. It serves one request at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from time import perf_counter

from engine.decoding.context import PREFILL_CHUNK, Context, common_prefix
from engine.decoding.proposer import Proposer
from engine.decoding.target import Target
from engine.decoding.work import PrefillWork, WorkItem, YieldWork
from engine.drafting import proposers
from engine.drafting.resources import Resources
from engine.events import Prefilled
from engine.models.base import Model
from engine.request import Speculation
from engine.vision.encoder import ImageEncoder

_LOOKS, _LOOKS_BESIDE_OTHERS = 0.02, 0.001
"""Seconds between two looks whether an image is computed, alone and while other requests run."""

_Options = tuple[tuple[str, object], ...]


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
        self._proposers: dict[str, tuple[_Options, Proposer]] = {}

    def shared(self, keys: list[int]) -> int:
        """Return the length of the prefix of ``keys`` that the slot holds."""
        return common_prefix(self.target.keys, keys)

    def proposer(self, speculation: Speculation) -> Proposer:
        """Return the proposer; a new one only if its options differ from the last request's."""
        options = tuple(sorted(speculation.options.items()))
        previous, proposer = self._proposers.get(speculation.proposer, (None, None))
        if proposer is None or previous != options:
            if proposer is not None:
                proposer.close()
            proposer = proposers.create(speculation.proposer, speculation.options, self.resources)
            self._proposers[speculation.proposer] = options, proposer
        return proposer

    def prefill(
        self,
        context: Context,
        proposer: Proposer,
        reuse: bool,
        cancelled: Callable[[], bool],
        copy_into: Callable[[list[int]], None] | None,
        *,
        prepares: bool = True,
    ) -> Generator[WorkItem, None, Prefilled]:
        """Prefill all tokens but the pending one, in the target, and in the proposer if it ``prepares``.

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
        if prepares:
            for _ in proposer.prepare(context):
                if cancelled():
                    break
                if copy_into is not None:
                    yield YieldWork()
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
                self._proposers.pop(name)[1].close()

    def close(self) -> None:
        """Release the proposers' memory."""
        for _, proposer in self._proposers.values():
            proposer.close()
        self._proposers.clear()
