"""The loop. Rounds come out; text, chat and clients are somebody else's."""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass, replace
from time import perf_counter

from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.judge import Judge
from engine.decoding.proposer import Proposer
from engine.decoding.target import Target
from engine.events import Budget, Round, Timing


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends a generation: a token of ``eos``, or ``limit`` new tokens."""

    limit: int
    eos: Collection[int]


def decode(
    context: Context,
    target: Target,
    proposer: Proposer,
    controller: Controller,
    judge: Judge,
    ending: Ending,
    name: str,
) -> Generator[Round]:
    """Yields rounds until ``ending``; each appends its tokens to ``context``.

    The target's cache must hold ``context.tokens[:-1]``. Between two rounds the caller may stop
    iterating; cache and context agree then. ``name`` is the proposer's, for the record; one that has
    several to choose from says which.
    """
    index, done = 0, False
    while not done and context.generated < ending.limit:
        started = perf_counter()
        budget = _within(controller.budget(), ending.limit - context.generated - 1)
        proposal = proposer.propose(context, budget)
        drafted = perf_counter()
        logits = target.verify(context.tokens[-1], proposal.tree)
        verified = perf_counter()
        judgement = judge(logits, proposal, context)
        acceptance = judgement.acceptance
        target.commit(acceptance.path)
        proposer.observe(acceptance)

        tokens = [*(proposal.tree.tokens[node] for node in acceptance.path), acceptance.next_token]
        emitted, done = cut(tokens, ending.eos)
        context.tokens.extend(tokens[:emitted])
        round = Round(
            index=index,
            proposer=proposal.by or name,
            budget=replace(budget, needed=()),  # between these two; no more to be told of it
            tree=proposal.tree,
            accepted_path=acceptance.path,
            next_token=acceptance.next_token,
            origin=acceptance.origin,
            p=judgement.p,
            q=proposal.chosen_q,
            next_p=judgement.next_p,
            timing=Timing(drafted - started, verified - drafted, perf_counter() - started),
            emitted=emitted,
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


def cut(tokens: list[int], eos: Collection[int]) -> tuple[int, bool]:
    """How many tokens count, up to and including the first of ``eos``; whether one was there."""
    for index, token in enumerate(tokens):
        if token in eos:
            return index + 1, True
    return len(tokens), False
