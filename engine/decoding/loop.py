"""The loop: launch and read. Rounds come out; text, chat and clients are somebody else's."""

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
    """A round that was read: what was drafted within ``budget``, and what the target makes of it."""

    budget: Budget
    proposal: DraftProposal
    output: VerifierOutput


class Launcher(Protocol):
    """Where the rounds of one request run: here, or on a device, which may be a round ahead.

    What the host learns of a round then acts one round late. At most one is computed for nothing.
    """

    @property
    def ahead(self) -> int:
        """Rounds that may be launched beside the one that is read next: 0 or 1."""

    def launch(self, budget: Budget, started: float) -> bool:
        """Begins a round: propose, verify, judge. False where the one before it must be read first.

        ``started``: when its budget was asked for, by ``perf_counter``.
        """

    @property
    def waits(self) -> WorkItem | None:
        """What the oldest round launched waits for that others may compute, before it is read."""

    def read(self) -> Verified:
        """Waits for the oldest round launched. Raises ModelError for logits that are no numbers."""

    def commit(self, verified: Verified) -> Timing:
        """The accepted path stays in the caches, and the proposer observes; then what the round took."""

    def close(self) -> None:
        """No more rounds: from here on the target's cache holds the context but for the pending token."""


def decode(
    context: Context,
    launcher: Launcher,
    controller: Controller,
    ending: StoppingCriteria,
    name: str,
) -> Generator[Round]:
    """The rounds of ``decode_beside``, with a launcher that waits for nobody."""
    rounds = decode_beside(context, launcher, controller, ending, name)
    return cast(Generator[Round], rounds)


def decode_beside(
    context: Context,
    launcher: Launcher,
    controller: Controller,
    ending: StoppingCriteria,
    name: str,
) -> Generator[Round | WorkItem]:
    """Yields rounds until ``ending``; each appends its tokens to ``context``.

    Before a round may come what it waits for: it is to be computed, by whoever can, before the next is
    asked for, or is then.

    The target's cache must hold ``context.tokens[:-1]``, and does so again when this is closed, which may
    be between any two rounds. ``name`` is the proposer's, for the record; one that has several to choose
    from says which.
    """
    index, unread, ended = 0, 0, False
    budget: Budget | None = None  # decided, for a round that has to wait
    with closing(launcher):
        while not ended and (room := ending.limit - context.generated) > 0:
            # A round brings one token at least.
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
                budget=replace(verified.budget, needed=()),  # that is between the two who decide
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
    """No deeper than the tokens still wanted: the target adds one of its own."""
    return replace(
        budget,
        depth=min(budget.depth, room),
        nodes=budget.nodes if room else 0,
        needed=budget.needed[:room],
    )


def up_to_end(tokens: list[int], eos: Collection[int]) -> tuple[int, bool]:
    """How many tokens count, up to and including the first of ``eos``; whether one was there."""
    for index, token in enumerate(tokens):
        if token in eos:
            return index + 1, True
    return len(tokens), False
