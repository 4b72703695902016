"""Draft trees: several tokens for one place, the likeliest branches first.

Medusa (Cai et al. 2024, arXiv 2401.10774) tries every token of a head behind every token of the head
before it; EAGLE-2 (Li et al. 2024, arXiv 2406.16858) takes a node's worth to be the product of the
draft's probabilities down to it, and keeps the worthiest. Here the worthiest are grown one by one, so a
tree of n nodes is the beginning of one of n + 1.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from engine.backends.operations import Draft
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.proposers.drawing import floors_of, stream_of
from engine.errors import InvalidRequest
from engine.events import Budget, Tree
from engine.models.hidden_states import Backbone
from engine.values import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class BranchOptions:
    """What proposers that can draft trees let people choose."""

    tree_nodes: int = field(
        default=0,
        metadata={
            "help": "drafts a tree of so many tokens, several for one place, where the rule is greedy "
            "or coupled; 0 is a single chain"
        },
    )

    def __post_init__(self) -> None:
        if not 0 <= self.tree_nodes <= MAX_DEPTH:
            raise InvalidRequest(
                "options", f"tree_nodes is {self.tree_nodes}; it must be 0 to {MAX_DEPTH}."
            )

    def nodes(self, sampler: Sampler, target: Backbone, budget: Budget) -> int:
        """How many tokens a tree may have in this round; 0 where a chain is drafted.

        Rules that weigh q are defined along a chain, and not every target verifies branches.
        """
        if sampler.rule.weighs_q:
            return 0
        return min(self.tree_nodes, target.tree_nodes, budget.nodes)


class Level(NamedTuple):
    """Candidates for one place, the first choice first, and the draft's probability of each."""

    tokens: Sequence[int]
    p: Sequence[float]


def candidates(sampler: Sampler, logits: Tensor, drafted: Sequence[int], position: int) -> Level:
    """The first choices at ``position`` from ``logits (1, vocabulary)``, behind ``drafted``.

    Under ``coupled`` the runners-up are those of the same race that the target's token wins.
    """
    adjusted = sampler.adjusted(logits, [drafted])
    p = sampler.probabilities(adjusted)
    tokens = sampler.rank(adjusted, p, position, stream_of(sampler), MAX_DEPTH)
    return Level(tokens, p[0, tokens].tolist())


def branched_out(
    draft: Draft,
    sampler: Sampler,
    known: int,
    budget: Budget,
    on_target: Callable[[Tensor], Tensor],
) -> DraftProposal:
    """As ``written_out``, with branches beside the first choices."""
    floors = floors_of(sampler, budget)
    levels: list[Level] = []
    drafted: list[int] = []
    for step in range(budget.depth):
        logits = on_target(draft.logits(step))
        levels.append(candidates(sampler, logits, drafted, known + step))
        drafted.append(levels[-1].tokens[0])
        draft.choose(step, drafted[-1])
        if floors.ended(level.p[0] for level in levels):
            break
    return grow(levels, budget.nodes, floors.counts, spread=False)


def grow(levels: Sequence[Level], nodes: int, floor: float, *, spread: bool) -> DraftProposal:
    """The tree of the worthiest ``nodes`` tokens, at most one level deeper than its parent each.

    A token's worth is how likely it is together with its ancestors; none has less than ``floor``.
    ``spread``: what stands on a level may follow every token of the level before; else the first
    choice alone, since the others were not read on from.
    """
    tokens: list[int] = []
    parents: list[int] = []
    p: list[float] = []
    # Worth, number (ties are settled by age), worth of the parent, parent, level, rank.
    waiting = [(-levels[0].p[0], 0, 1.0, -1, 0, 0)] if levels else []
    pushed = 1
    while waiting and len(tokens) < nodes:
        worth, _, before, parent, depth, rank = heapq.heappop(waiting)
        if -worth < floor:
            break
        level = levels[depth]
        if rank + 1 < len(level.tokens) and level.p[rank + 1] > 0:
            sibling = -before * level.p[rank + 1], pushed, before, parent, depth, rank + 1
            heapq.heappush(waiting, sibling)
            pushed += 1
        if depth + 1 < len(levels) and (spread or rank == 0):
            child = worth * levels[depth + 1].p[0], pushed, -worth, len(tokens), depth + 1, 0
            heapq.heappush(waiting, child)
            pushed += 1
        tokens.append(level.tokens[rank])
        parents.append(parent)
        p.append(level.p[rank])
    return DraftProposal(Tree(tuple(tokens), tuple(parents)), None, tuple(p))
