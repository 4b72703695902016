"""One running request: prefill, rounds and text, a step at a time.

A step goes as far as the sequence can alone. It then needs a work item, which ``Batcher`` may do together
with those of other sequences, or yields to them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from engine.decoding.constraint import ConstrainedProposer, Constraint, ForcingController
from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.device import DeviceLauncher, drafting_within
from engine.decoding.host import HostLauncher
from engine.decoding.loop import Launcher, RoundLoop
from engine.decoding.proposer import Proposer
from engine.decoding.sampling import Sampler
from engine.decoding.text.codec import TextCodec
from engine.decoding.text.output_processor import OutputProcessor
from engine.decoding.verifier import Verifier
from engine.decoding.work import WorkItem, YieldWork
from engine.drafting.controllers.batch import BatchMember
from engine.drafting.controllers.factory import ControllerFactory
from engine.drafting.predicted import PredictedProposer
from engine.drafting.preparing import Preparing
from engine.events import Event, Started
from engine.local.run import Run
from engine.local.slots import Slot, Slots
from engine.request import Control

_CHUNKS_A_ROUND = 4
"""Of the proposer's prefill, where nobody else waits; in the compiled step, 256 tokens."""

Steps = Generator[WorkItem | None, None, None]
"""Yields a work item that the sequence waits for, or None to let other sequences run."""


@dataclass(frozen=True, slots=True)
class SessionResources:
    """State that all sequences of a session share. ``native``: whether the compiled library samples."""

    codec: TextCodec
    controllers: ControllerFactory
    slots: Slots
    native: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """A request in its slot.

    ``publish`` takes its events. ``batched``: whether others may run at the same time. ``thinking``:
    whether the reply begins inside a thought.
    """

    resources: SessionResources
    slot: Slot
    run: Run
    processor: OutputProcessor
    publish: Callable[[Event], None]
    cancelled: Callable[[], bool]
    batched: bool
    thinking: bool

    def steps(self) -> Steps:
        """Run the request; publish Started, Prefilled, Emitted..., Finished. Raises as ``Session``."""
        run, target, controllers = self.run, self.slot.target, self.resources.controllers
        wanted, name = run.speculation, target.model.info.name
        self.publish(
            Started(name, wanted.proposer, run.rule, run.prompt.tokens, run.seed, self.thinking)
        )
        yield None
        context = Context(run.prompt)
        context.tokens.extend(run.reply_prefix)
        constraint = constraint_of(run, context)
        vocabulary = target.model.info.vocabulary
        sampler = sampler_of(run, context, constraint, vocabulary, native=self.resources.native)
        proposer = self._begin(context, sampler)
        within = target.runs_rounds and drafting_within(proposer, constraint) is not None
        member = controllers.batch_member(wanted, proposer, sampler, within=within)
        preparing = yield from self._prefill(context, proposer, member)
        if not self.cancelled():
            rounds = self._rounds(context, proposer, sampler, constraint, member)
            limit = run.stopping.limit - len(run.reply_prefix)
            with closing(rounds), member.decoding(preparing, limit, self.slot.undrafted):
                yield from self._decode(rounds, preparing, member)
            self.slot.undrafted = member.undrafted
        # Forget tokens that were not shown. What a follow-up finds in the state must not depend on the
        # proposer, since prefilled KV need not have the bits of decoded KV.
        target.reuse([*run.prompt.keys, *self.processor.tokens][:-1])
        self.publish(self.processor.finish(cancelled=self.cancelled()))

    def _begin(self, context: Context, sampler: Sampler) -> Proposer:
        """Return the slot's proposer, or one that drafts from the prediction first; begin its text."""
        run, proposer = self.run, self.slot.proposer(self.run.speculation)
        if run.predicted:
            info = self.slot.target.model.info
            expected = self.resources.codec.encode_part(run.predicted, info.context)
            # A tokenizer may have more tokens than the model has rows.
            known = tuple(takewhile(lambda token: token < info.vocabulary, expected))
            proposer = PredictedProposer(known, proposer, run.speculation.proposer)
        if not run.reuse_cache:
            proposer.begin(Context(()), sampler)  # shares no prefix: clears the proposer's state
        proposer.begin(context, sampler)
        return proposer

    def _prefill(
        self, context: Context, proposer: Proposer, member: BatchMember
    ) -> Generator[WorkItem | None, None, Preparing]:
        """Prefill the prompt in the target, and in the proposer unless that is to wait."""
        batched, target = self.batched, self.slot.target
        copy_into = partial(self.resources.slots.copy_into, self.slot) if batched else None
        prefilled = yield from self.slot.prefill(
            context, self.run.reuse_cache, self.cancelled, copy_into
        )
        if not prefilled.reused:
            self.slot.undrafted = 0
        preparing = Preparing(proposer, context, prefilled)
        # A GPU's rounds cannot wait: they are decided ahead.
        if member.prefills_at_once(0 if target.runs_rounds else preparing.left):
            while not (preparing.finished or self.cancelled()):
                yield YieldWork() if batched else None
                _compute(preparing, member)
        self.publish(preparing.prefilled)
        yield None
        return preparing

    def _rounds(
        self,
        context: Context,
        proposer: Proposer,
        sampler: Sampler,
        constraint: Constraint | None,
        controller: Controller,
    ) -> RoundLoop:
        run = self.run
        if constraint is not None and run.speculation.control is not Control.OFF:
            proposer = ConstrainedProposer(proposer, constraint)
            controller = ForcingController(controller, constraint, run.speculation.deepest)
        launcher = self._launcher(context, proposer, sampler, constraint)
        return RoundLoop(context, launcher, controller, run.stopping, run.speculation.proposer)

    def _decode(self, rounds: RoundLoop, preparing: Preparing, member: BatchMember) -> Steps:
        told = preparing.prefilled
        while self._goes_on(rounds):
            if (work := rounds.launch()) is not None:
                yield work
            self.publish(self.processor.add(rounds.finish()))
            yield None
            if member.wants_prefill and self._goes_on(rounds):
                alone = self.resources.controllers.batch.running < 2
                _compute(preparing, member, _CHUNKS_A_ROUND if alone else 1)
                if preparing.finished:
                    self.publish(preparing.prefilled)
        if not (preparing.finished or preparing.prefilled is told):
            self.publish(preparing.prefilled)  # the reply ended before

    def _goes_on(self, rounds: RoundLoop) -> bool:
        return not (rounds.ended or self.processor.stopped or self.cancelled())

    def _launcher(
        self, context: Context, proposer: Proposer, sampler: Sampler, constraint: Constraint | None
    ) -> Launcher:
        """Return the launcher of the rounds.

        A target that runs rounds verifies every request on the device: its noise and the host's differ in
        the last bits, and the words of a seed must not depend on the proposer.
        """
        target, top = self.slot.target, self.run.top_logprobs
        if target.runs_rounds:
            batch = self.resources.controllers.batch
            return DeviceLauncher(
                context, target, proposer, sampler, constraint, top,
                is_alone=lambda: not self.batched or batch.running < 2,
            )  # fmt: skip
        verifier = Verifier(sampler, top)
        return HostLauncher(context, target, proposer, verifier, shares=self.batched)


def _compute(preparing: Preparing, member: BatchMember, chunks: int = 1) -> None:
    """Prefill the next chunks in the proposer; ``member`` learns their time."""
    before = preparing.left
    seconds = preparing.compute(chunks)
    member.observe_prefill(before - preparing.left, seconds)


def constraint_of(run: Run, context: Context) -> Constraint | None:
    """Return the constraint of the run's grammar and thinking; None without one."""
    grammar = None if run.grammar is None else run.grammar.start()
    if run.thinking is not None:
        return Constraint(run.thinking.follow(grammar), context)
    return None if grammar is None else Constraint(grammar, context)


def sampler_of(
    run: Run, context: Context, mask: Constraint | None, vocabulary: int, *, native: bool
) -> Sampler:
    """Return the run's sampler over ``vocabulary`` tokens."""
    return Sampler(
        run.sampling,
        run.rule,
        run.seed,
        context,
        vocabulary,
        bias=run.logit_bias,
        native_step=native,
        mask=mask,
    )
