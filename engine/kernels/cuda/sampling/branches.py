"""Draft a tree on the device: rank each step's tokens, then grow the tree of the most probable ones.

The tree is that of ``engine.drafting.proposers.branches.grow`` for the same probabilities, without its
floor, and it always has all its nodes: those of probability zero come last.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.cuda.sampling.acceptance import TILE, WARPS, Rule, race_times
from engine.kernels.cuda.sampling.arithmetic import exponential, noise_key
from engine.kernels.cuda.sampling.state import SamplingState
from engine.noise import Stream
from engine.values import MAX_ROWS

_TILE, _ROWS, _SLOTS, _CHOICE = map(
    tl.constexpr, (TILE, MAX_ROWS, 2 * MAX_ROWS, int(Stream.CHOICE))
)


@triton.jit(do_not_specialize=["index"])
def times_kernel(
    vocabulary: tl.tensor,
    index: tl.tensor,
    seed_and_length: tl.tensor,
    q: tl.tensor,
    times: tl.tensor,
) -> None:
    """Write the time of each token of a row in its race; grid (tiles,)."""
    tokens = tl.program_id(0) * _TILE + tl.arange(0, _TILE)
    inside, stream = tokens < vocabulary, tl.full([], _CHOICE, tl.uint64)
    key = noise_key(tl.load(seed_and_length), stream, tl.load(seed_and_length + 1) + index)
    weights = tl.load(q + tokens, inside, other=0.0)
    tl.store(times + tokens, race_times(exponential(key, tokens), weights), inside)


@triton.jit(do_not_specialize=["levels", "nodes"])
def grow_kernel(
    levels: tl.tensor, nodes: tl.tensor, tokens: tl.tensor, q: tl.tensor, drafted: tl.tensor,
    tree: tl.tensor, SPREAD: tl.constexpr,
) -> None:  # fmt: skip
    """Add ``nodes`` tokens one by one, of ``tokens`` and ``q`` (levels, nodes); one program.

    A node may be followed by its next sibling and its first child. They wait in slots ``2 node + 1`` and
    ``2 node + 2``, an empty slot with the joint probability -1; of equals the first one is taken.
    """
    slots, rows = tl.arange(0, _SLOTS), tl.arange(0, _ROWS)
    joint = tl.where(slots == 0, tl.load(q).to(tl.float64), -1.0)
    before = tl.full([_SLOTS], 1.0, tl.float64)  # the parent's joint probability
    places = tl.zeros([_SLOTS], tl.int32)  # level * nodes + rank
    parents = tl.zeros([_SLOTS], tl.int32)  # rows
    depths, branches = tl.zeros([_ROWS], tl.int32), tl.zeros([_ROWS, _ROWS], tl.int32)
    for node in range(0, nodes):
        best = tl.max(joint, 0)
        taken = slots == tl.min(tl.where(joint == best, slots, _SLOTS), 0)
        place = tl.sum(tl.where(taken, places, 0), 0)
        parent = tl.sum(tl.where(taken, parents, 0), 0)
        above = tl.sum(tl.where(taken, before, 0.0), 0)
        tl.store(drafted + node, tl.load(tokens + place).to(tl.int32))
        level, row = place // nodes, node + 1
        own = tl.sum(tl.where(rows[:, None] == parent, branches, 0), 0)
        own = tl.where(rows == level + 1, row, own)
        branches = tl.where(rows[:, None] == row, own[None, :], branches)
        depths = tl.where(rows == row, level + 1, depths)
        first, next_level = place == level * nodes, (level + 1) * nodes
        sibling = (slots == 2 * node + 1) & (place + 1 < next_level)
        child = (slots == 2 * node + 2) & (level + 1 < levels) & (first | SPREAD)
        beside = tl.load(q + place + 1, place + 1 < next_level, other=0.0)
        below = tl.load(q + next_level, level + 1 < levels, other=0.0)
        joint = tl.where(taken, -1.0, joint)
        joint = tl.where(sibling, above * beside, tl.where(child, best * below, joint))
        before = tl.where(sibling, above, tl.where(child, best, before))
        places = tl.where(sibling, place + 1, tl.where(child, next_level, places))
        parents = tl.where(sibling, parent, tl.where(child, row, parents))
    tl.store(tree + rows, depths)
    tl.store(tree + _ROWS + rows[:, None] * _ROWS + rows[None, :], branches)


def rank(
    q: Tensor, state: SamplingState, *, rule: Rule, index: int, count: int
) -> tuple[Tensor, Tensor]:
    """Return the first ``count`` choices of row 0 of ``q``, and their q. Draft the first, as ``index``.

    Under ``coupled`` they are ranked by the target's noise.
    """
    if rule is Rule.GREEDY:
        found, tokens = q[0].topk(count)
    else:
        times, vocabulary = torch.empty_like(q[0]), q.shape[1]
        times_kernel[(triton.cdiv(vocabulary, TILE),)](
            vocabulary,
            index,
            state.seed_and_length,
            q,
            times,
            num_warps=WARPS,
            enable_fp_fusion=False,
        )
        tokens = times.topk(count, largest=False).indices
        found = q[0].gather(0, tokens)
    state.drafted[index : index + 1].copy_(tokens[:1])
    return tokens, found


def grow(
    ranked: Sequence[tuple[Tensor, Tensor]], state: SamplingState, nodes: int, *, spread: bool
) -> None:
    """Write the tree of the ``nodes`` most probable tokens to ``state``.

    ``ranked``: of each level ``nodes`` tokens and their q, by ``rank``. ``spread``: see ``RoundDrafter``.
    """
    tokens, q = map(torch.stack, zip(*ranked, strict=True))
    grow_kernel[(1,)](
        len(ranked), nodes, tokens, q, state.drafted, state.tree,
        SPREAD=spread, num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip
