"""The decoding loop: budget, propose, verify, accept, commit. It knows no text, chat or client."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.proposer import DraftProposal
from engine.decoding.verifier import VerifierOutput
from engine.decoding.work import WorkItem
from engine.events import Budget, Round, Timing


@dataclass(frozen=True, slots=True)
class StoppingCriteria:
    """What ends a generation: a token of ``eos``, or ``limit`` new tokens."""

    limit: int
    eos: Collection[int]


@dataclass(frozen=True, slots=True)
class RoundOutput:
    """A round that was read: its budget, its draft and the verifier's output."""

    budget: Budget
    proposal: DraftProposal
    verifier_output: VerifierOutput


class Launcher(Protocol):
    """Runs the rounds of one request, on the host or on a device.

    A device may be one round ahead. The host's decisions then take effect one round late, and at most one
    round is discarded.
    """

    @property
    def ahead(self) -> int:
        """The number of unread rounds that may be followed by another: 0 or 1."""

    def launch(self, budget: Budget, started: float) -> bool:
        """Begin a round: propose and verify. Return False if the round before it must be read first.

        ``started``: the time before the budget was computed, by ``perf_counter``.
        """

    @property
    def work(self) -> WorkItem | None:
        """The oldest round's work item, if a shared pass may do it before the round is read."""

    def read(self) -> RoundOutput:
        """Wait for the oldest round and return it. Raises ModelError for logits that are not finite."""

    def commit(self, output: RoundOutput) -> Timing:
        """Commit the accepted path, report it to the proposer, and return the round's times."""

    def close(self) -> None:
        """End the request. The target's state holds the context then, but for the pending token."""


class RoundLoop:
    """The rounds of one sequence. Alternate ``launch`` and ``finish`` until it has ``ended``.

    The target's state must hold ``context.tokens[:-1]``, and does so again after ``close``, which may be
    called between any two rounds.
    """

    def __init__(
        self,
        context: Context,
        launcher: Launcher,
        controller: Controller,
        stopping: StoppingCriteria,
        name: str,
    ) -> None:
        """``name``: the proposer's name in ``Round``, unless a proposal names another."""
        self._context, self._launcher, self._controller = context, launcher, controller
        self._stopping, self._name = stopping, name
        self._index, self._unread, self._met_eos = 0, 0, False
        self._budget: Budget | None = None  # of a round that could not be launched yet

    @property
    def ended(self) -> bool:
        """True if the last round met the stopping criteria."""
        return self._met_eos or self._room <= 0

    @property
    def _room(self) -> int:
        return self._stopping.limit - self._context.generated

    def launch(self) -> WorkItem | None:
        """Propose for the next round, and return the work item that verifies it.

        The caller may do the item in a pass with those of other sequences. If it does not, or if the
        result is None, ``finish`` verifies alone.
        """
        # Each unread round brings at least one token.
        while self._unread <= self._launcher.ahead and self._unread < self._room:
            started = perf_counter()
            budget = self._budget or self._controller.budget()
            if not self._launcher.launch(_within(budget, self._room - self._unread - 1), started):
                self._budget = budget
                break
            self._budget, self._unread = None, self._unread + 1
        return self._launcher.work

    def finish(self) -> Round:
        """Verify, accept and commit the oldest round; append its tokens to the context and return it."""
        result = self._launcher.read()
        self._unread -= 1
        timing = self._launcher.commit(result)
        proposal, output = result.proposal, result.verifier_output
        acceptance, drafted = output.acceptance, proposal.tree.tokens
        tokens = [*(drafted[node] for node in acceptance.path), acceptance.next_token]
        emitted, self._met_eos = up_to_end(tokens[: self._room], self._stopping.eos)
        self._context.tokens.extend(tokens[:emitted])
        round = Round(
            index=self._index,
            proposer=proposal.by or self._name,
            budget=replace(result.budget, needed=()),  # only controller and proposer use it
            tree=proposal.tree,
            accepted_path=acceptance.path,
            next_token=acceptance.next_token,
            origin=acceptance.origin,
            p=output.p,
            q=proposal.chosen_q,
            next_p=output.next_p,
            timing=timing,
            emitted=emitted,
            top_tokens=output.top_tokens,
            top_logprobs=output.top_logprobs,
        )
        self._controller.observe(round)
        self._index += 1
        return round

    def close(self) -> None:
        """Discard launched rounds; see ``Launcher.close``."""
        self._launcher.close()


def _within(budget: Budget, room: int) -> Budget:
    """Limit the depth to ``room``, the tokens still wanted besides the target's own."""
    return replace(
        budget,
        depth=min(budget.depth, room),
        nodes=budget.nodes if room else 0,
        needed=budget.needed[:room],
    )


def up_to_end(tokens: list[int], eos: Collection[int]) -> tuple[int, bool]:
    """Return how many tokens precede and include the first of ``eos``, or all; and if it is there."""
    for index, token in enumerate(tokens):
        if token in eos:
            return index + 1, True
    return len(tokens), False
