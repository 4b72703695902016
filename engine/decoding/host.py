"""Rounds that are drafted and verified by the host, on any executor."""

from __future__ import annotations

from time import perf_counter

from engine.decoding.context import Context
from engine.decoding.loop import RoundOutput
from engine.decoding.proposer import Proposer
from engine.decoding.target import Target
from engine.decoding.verifier import Verifier, ancestries
from engine.decoding.work import SharedClock, VerifyWork, WorkItem
from engine.events import Budget, Timing


class HostLauncher:
    """A ``Launcher`` that drafts when it launches a round, and applies the rule when it reads it."""

    ahead = 0

    def __init__(
        self,
        context: Context,
        target: Target,
        proposer: Proposer,
        verifier: Verifier,
        *,
        shares: bool = False,
    ) -> None:
        """``shares``: whether its verification may join a shared pass."""
        self.context, self.target = context, target
        self.proposer, self.verifier = proposer, verifier
        self._shares, self._clock = shares, SharedClock()

    def launch(self, budget: Budget, started: float) -> bool:
        self._budget = budget
        self._proposal = self.proposer.propose(self.context, budget)
        drafted = perf_counter()
        if (mask := self.verifier.sampler.mask) is not None:
            mask.precompute(ancestries(self._proposal.tree))
        self._verify_work = VerifyWork(self.target, self.context.tokens[-1], self._proposal.tree)
        self._times = started, drafted
        return True

    @property
    def work(self) -> WorkItem | None:
        return self._verify_work if self._shares else None

    def read(self) -> RoundOutput:
        logits = self._verify_work.logits()
        self._verified_at = perf_counter()
        return RoundOutput(
            self._budget, self._proposal, self.verifier(logits, self._proposal, self.context)
        )

    def commit(self, output: RoundOutput) -> Timing:
        acceptance = output.verifier_output.acceptance
        self.target.commit(acceptance.path)
        self.proposer.observe(acceptance)
        return self._clock.timing(*self._times, self._verified_at, self._verify_work.began)

    def close(self) -> None:
        self.target.rewind(len(self.context.tokens) - 1)
