"""Draft trees: several tokens for one position, the most probable branches first.

Medusa (Cai et al. 2024, arXiv 2401.10774) tries every token of a head after every token of the head
before it. EAGLE-2 (Li et al. 2024, arXiv 2406.16858) ranks nodes by the product of the draft's
probabilities down to them. Here the best nodes are added one by one, so a tree of n nodes is a prefix of
the tree of n + 1.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from engine.backends.operations import Draft
from engine.decoding.proposer import DeviceDrafting, DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.proposers.drawing import HeadProposer, floors_of, option, stream_of
from engine.events import Budget, Tree
from engine.models.hidden_states import Backbone
from engine.values import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class BranchOptions:
    """Options of proposers that can draft trees."""

    tree_nodes: int = option(
        0,
        "draft a tree of this many tokens (rules greedy and coupled); 0 = a chain",
        range=(0, MAX_DEPTH),
    )

    def branches(self, sampler: Sampler, target: Backbone) -> bool:
        """Return whether trees are drafted. Rules that weigh q are defined along a chain."""
        return bool(self.tree_nodes and target.tree_nodes) and not sampler.rule.weighs_q

    def nodes(self, sampler: Sampler, target: Backbone, budget: Budget) -> int:
        """Return how many tokens a tree may have in this round; 0 for a chain."""
        if not self.branches(sampler, target):
            return 0
        return min(self.tree_nodes, target.tree_nodes, budget.nodes)


class BranchingProposer(HeadProposer):
    """A head that can draft trees."""

    options: BranchOptions
    target: Backbone

    def device_drafting(self) -> DeviceDrafting | None:
        drafting, wanted = super().device_drafting(), self.options.tree_nodes
        # Before the first request, which has a sampler, no trees are wanted.
        if drafting is None or not (wanted and self.options.branches(self.sampler, self.target)):
            return drafting
        return replace(drafting, tree_nodes=wanted)


class Level(NamedTuple):
    """Candidates for one position, the first choice first, and the draft's probability of each."""

    tokens: Sequence[int]
    p: Sequence[float]


def candidates(sampler: Sampler, logits: Tensor, drafted: Sequence[int], position: int) -> Level:
    """Return the first choices at ``position`` from ``logits (1, vocabulary)``, after ``drafted``.

    Under ``coupled`` they are ranked by the target's own noise.
    """
    adjusted = sampler.adjusted(logits.cpu(), [drafted])  # one wait for a device
    p = sampler.probabilities(adjusted)
    tokens = sampler.rank(adjusted, p, position, stream_of(sampler), MAX_DEPTH)
    return Level(tokens, p[0, tokens].tolist())


def draft_tree(
    draft: Draft,
    sampler: Sampler,
    position: int,
    budget: Budget,
    on_target: Callable[[Tensor], Tensor],
) -> DraftProposal:
    """Return a chain of first choices as ``draft_chain`` does, with branches beside them."""
    floors = floors_of(sampler, budget)
    levels: list[Level] = []
    drafted: list[int] = []
    for step in range(budget.depth):
        logits = on_target(draft.logits(step))
        levels.append(candidates(sampler, logits, drafted, position + step))
        drafted.append(levels[-1].tokens[0])
        draft.chain[step + 1] = drafted[-1]
        if floors.ended(level.p[0] for level in levels):
            break
    return grow(levels, budget.nodes, floors.row_floor, spread=False)


def grow(levels: Sequence[Level], nodes: int, row_floor: float, *, spread: bool) -> DraftProposal:
    """Return the tree of the ``nodes`` most probable tokens, none below ``row_floor``.

    Probabilities are joint with a token's ancestors. ``spread``: a token may follow any token of the
    level before; else only the first choice, because the head has not read the others.
    """
    tokens: list[int] = []
    parents: list[int] = []
    p: list[float] = []
    # Negated joint probability, number (the older of equals first), joint probability of the parent,
    # parent, level, rank.
    queue = [(-levels[0].p[0], 0, 1.0, -1, 0, 0)] if levels else []
    pushed = 1
    while queue and len(tokens) < nodes:
        negated, _, before, parent, depth, rank = heapq.heappop(queue)
        if -negated < row_floor:
            break
        level = levels[depth]
        if rank + 1 < len(level.tokens) and level.p[rank + 1] > 0:
            sibling = -before * level.p[rank + 1], pushed, before, parent, depth, rank + 1
            heapq.heappush(queue, sibling)
            pushed += 1
        if depth + 1 < len(levels) and (spread or rank == 0):
            child = negated * levels[depth + 1].p[0], pushed, -negated, len(tokens), depth + 1, 0
            heapq.heappush(queue, child)
            pushed += 1
        tokens.append(level.tokens[rank])
        parents.append(parent)
        p.append(level.p[rank])
    return DraftProposal(Tree(tuple(tokens), tuple(parents)), None, tuple(p))
