"""Rounds whose drafting and judging the host does, whatever computes the models."""

from __future__ import annotations

from time import perf_counter

from engine.decoding.context import Context
from engine.decoding.judge import Judge, ancestries
from engine.decoding.loop import Verified
from engine.decoding.proposer import Proposer
from engine.decoding.target import Target
from engine.events import Budget, Timing


class HostLauncher:
    """A ``Launcher`` that has finished a round when it has launched it."""

    ahead = 0

    def __init__(self, context: Context, target: Target, proposer: Proposer, judge: Judge) -> None:
        self.context, self.target, self.proposer, self.judge = context, target, proposer, judge

    def launch(self, budget: Budget, started: float) -> bool:
        proposal = self.proposer.propose(self.context, budget)
        drafted = perf_counter()
        if (mask := self.judge.sampler.mask) is not None:
            mask.foresee(ancestries(proposal.tree))
        logits = self.target.verify(self.context.tokens[-1], proposal.tree)
        verified = perf_counter()
        self._verified = Verified(budget, proposal, self.judge(logits, proposal, self.context))
        self._times = started, drafted, verified
        return True

    def read(self) -> Verified:
        return self._verified

    def commit(self, verified: Verified) -> Timing:
        acceptance = verified.judgement.acceptance
        self.target.commit(acceptance.path)
        self.proposer.observe(acceptance)
        started, drafted, done = self._times
        return Timing(drafted - started, done - drafted, perf_counter() - started)

    def close(self) -> None:
        self.target.crop(len(self.context.tokens) - 1)
