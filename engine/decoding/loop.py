"""The decoding loop: it launches and reads rounds. It knows no text, chat or client."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol, cast

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
class Verified:
    """A round that was read: its budget, what was drafted, and what the verifier made of it."""

    budget: Budget
    proposal: DraftProposal
    output: VerifierOutput


class Launcher(Protocol):
    """Runs the rounds of one request, on the host or on a device.

    A device may be one round ahead. What the host learns of a round then takes effect one round late, and
    at most one round is computed in vain.
    """

    @property
    def ahead(self) -> int:
        """How many rounds may be launched before the oldest is read: 0 or 1."""

    def launch(self, budget: Budget, started: float) -> bool:
        """Begin a round: propose and verify. Return False if the round before it must be read first.

        ``started``: when the budget was asked for, by ``perf_counter``.
        """

    @property
    def waits(self) -> WorkItem | None:
        """The work item of the oldest round, if another may do it before the round is read."""

    def read(self) -> Verified:
        """Wait for the oldest round and return it. Raises ModelError for logits that are not finite."""

    def commit(self, verified: Verified) -> Timing:
        """Commit the accepted path, tell the proposer, and return what the round took."""

    def close(self) -> None:
        """End the request. The target's state holds the context then, but for the pending token."""


def decode(
    context: Context,
    launcher: Launcher,
    controller: Controller,
    ending: StoppingCriteria,
    name: str,
) -> Generator[Round]:
    """Yield the rounds of ``decode_beside``, whose launcher has no work items."""
    rounds = decode_beside(context, launcher, controller, ending, name)
    return cast(Generator[Round], rounds)


def decode_beside(
    context: Context,
    launcher: Launcher,
    controller: Controller,
    ending: StoppingCriteria,
    name: str,
) -> Generator[Round | WorkItem]:
    """Yield rounds until ``ending``; each appends its tokens to ``context``.

    A work item may come before a round. The caller may do it, together with those of other requests,
    before it asks for the next value. If it does not, the round does it alone.

    The target's state must hold ``context.tokens[:-1]``. It does so again when the generator is closed,
    which may be between any two rounds. ``name`` is the proposer's name in ``Round``, unless a proposal
    names another.
    """
    index, unread, ended = 0, 0, False
    budget: Budget | None = None  # of a round that could not be launched yet
    with closing(launcher):
        while not ended and (room := ending.limit - context.generated) > 0:
            # Each unread round brings at least one token.
            while unread <= launcher.ahead and unread < room:
                started = perf_counter()
                budget = budget or controller.budget()
                if not launcher.launch(_within(budget, room - unread - 1), started):
                    break
                budget, unread = None, unread + 1
            if (wait := launcher.waits) is not None:
                yield wait
            verified = launcher.read()
            unread -= 1
            timing = launcher.commit(verified)
            proposal, output = verified.proposal, verified.output
            acceptance, drafted = output.acceptance, proposal.tree.tokens
            tokens = [*(drafted[node] for node in acceptance.path), acceptance.next_token]
            emitted, ended = up_to_end(tokens[:room], ending.eos)
            context.tokens.extend(tokens[:emitted])
            round = Round(
                index=index,
                proposer=proposal.by or name,
                budget=replace(verified.budget, needed=()),  # only controller and proposer use it
                tree=proposal.tree,
                accepted_path=acceptance.path,
                next_token=acceptance.next_token,
                origin=acceptance.origin,
                p=output.p,
                q=proposal.chosen_q,
                next_p=output.next_p,
                timing=timing,
                emitted=emitted,
                likeliest=output.likeliest,
                alternatives=output.alternatives,
            )
            controller.observe(round)
            yield round
            index += 1


def _within(budget: Budget, room: int) -> Budget:
    """Limit the depth to the tokens still wanted; the target adds one of its own."""
    return replace(
        budget,
        depth=min(budget.depth, room),
        nodes=budget.nodes if room else 0,
        needed=budget.needed[:room],
    )


def up_to_end(tokens: list[int], eos: Collection[int]) -> tuple[int, bool]:
    """Return how many tokens count, up to the first of ``eos`` with it, and whether there is one."""
    for index, token in enumerate(tokens):
        if token in eos:
            return index + 1, True
    return len(tokens), False
