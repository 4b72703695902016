"""A slot: the state and the proposers of one sequence. It serves one request at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import count
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

_Options = tuple[tuple[str, object], ...]
_scheduler = count(1)


class Slot:
    """The target's state and the proposers of one sequence, kept between requests for prefix reuse."""

    def __init__(self, model: Model, resources: Resources, *, captures: bool) -> None:
        """``captures``: see ``Target``."""
        self.target = Target(model, resources.aux_layers, captures=captures)
        self.resources = replace(resources, backbone=self.target) if resources.heads else resources
        self.busy = False
        self.used = 0  # the greater, the later
        self._proposers: dict[str, tuple[_Options, Proposer]] = {}

    def take(self) -> None:
        """Reserve the slot for a request, until ``leave``."""
        self.busy, self.used = True, next(_scheduler)

    def leave(self) -> None:
        """Free the slot after the request."""
        self.busy = False

    def shares(self, keys: list[int]) -> int:
        """Return the length of the prefix of ``keys`` that the slot holds."""
        return common_prefix(self.target.keys, keys)

    def proposer(self, wanted: Speculation) -> Proposer:
        """Return the proposer, the same one as for the last request that wanted it with these options."""
        options = tuple(sorted(wanted.options.items()))
        known, proposer = self._proposers.get(wanted.proposer, (None, None))
        if proposer is None or known != options:
            if proposer is not None:
                proposer.close()
            proposer = proposers.create(wanted.proposer, wanted.options, self.resources)
            self._proposers[wanted.proposer] = options, proposer
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
        while work.left and not cancelled():
            if copy_into is None:
                work.read(PREFILL_CHUNK)
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

    def close(self) -> None:
        """Releases the proposers' memory."""
        for _, proposer in self._proposers.values():
            proposer.close()
        self._proposers.clear()
