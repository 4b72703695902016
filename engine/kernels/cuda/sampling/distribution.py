"""Compute the probabilities that tokens are drawn from, in torch: logits to truncated p.

The host's rules are ``Sampler.adjusted`` and ``truncated`` in ``engine.decoding.sampling``; here all
shapes are fixed and nothing waits for the device, so it can be captured in a graph. Operations act on
each element, or give the same in any order: a maximum, a sort by value whose ties do not matter, sums of
integers. So neither the number of rows nor the algorithm that torch chooses for it changes a bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.cuda.sampling.state import SamplingState
from engine.kernels.torch.penalties import penalised

MASS_ONE = 2.0**44
"""The weight of the most likely token. Weights are summed as integers; a quarter of a million of them
still fit 63 bits."""


def compute_distribution(
    logits: Tensor,
    state: SamplingState,
    out: Tensor | None,
    *,
    first: int = 0,
    allowed: Tensor | None = None,
    greedy: bool = False,
    adjusts: bool = True,
    truncates: bool = True,
    tree: bool = False,
) -> None:
    """Write each row's largest logit to ``state``, and its p to ``out``: float32 (rows, vocabulary).

    ``logits``: (rows, at least vocabulary). Row i follows ``first + i`` drafted tokens, or its ancestors
    in the ``tree`` of ``state``. ``allowed``: a grammar's bitmask, int32 (rows, ceil(vocabulary / 32)),
    lowest bit first. ``greedy`` skips temperature and truncation. ``adjusts``: there are biases or
    penalties. ``truncates``: there is a truncation. ``out`` None: the likeliest token is enough. Rows of
    broken logits get a p of NaN.
    """
    rows, vocabulary = len(logits), len(state.token_counts)
    x = logits[:, :vocabulary].float()
    if adjusts:
        x = x + state.bias
        counts, settings = _counts(state, first, rows, tree), state.sampling_params[3:].float()
        x = torch.where(counts > 0, penalised(x, counts - 1, *settings.unbind()), x)
    if allowed is not None:
        bits = allowed[:rows, :, None] >> torch.arange(32, device=x.device) & 1
        x = x.masked_fill(bits.flatten(1)[:, :vocabulary] == 0, float("-inf"))
    if not greedy:
        x = x / state.sampling_params[0]
    highest = state.max_logits[:rows]
    torch.max(x, -1, out=(highest, state.argmax[:rows]))
    if out is None:
        return
    weights = (x - highest[:, None]).exp_().mul_(MASS_ONE)
    mass = weights.long().sum(-1, keepdim=True)
    if truncates and not greedy:
        weights, mass = truncate(weights, state)
    torch.div(weights, mass, out=out[:rows])


def _counts(state: SamplingState, first: int, rows: int, tree: bool) -> Tensor:
    """Return ``token_counts`` with the drafted tokens before each row."""
    nodes, device = first + rows - 1, state.token_counts.device
    depths, drafted = torch.arange(first, nodes + 1, device=device), state.drafted[:nodes]
    if tree:
        depths, ancestors = state.tree[0, :rows], state.tree[1 : rows + 1, 1:rows]
        drafted = drafted[(ancestors - 1).clamp_min(0)]
    before = torch.arange(nodes, device=device) < depths[:, None]
    hits = state.token_counts.new_zeros(rows, len(state.token_counts))
    hits.scatter_add_(1, drafted.long().expand(rows, -1), before.int())
    return torch.maximum(state.token_counts, hits.clamp_max(1)) + hits


def truncate(weights: Tensor, state: SamplingState) -> tuple[Tensor, Tensor]:
    """Return the ``weights`` that top-k, top-p and min-p leave, others 0, and their sum int64 (rows, 1).

    Cuts are by value: tokens of equal weight stay or go together.
    """
    ranked = weights.sort(-1, descending=True).values
    sizes = ranked.long()
    # One scan over all rows is torch's fastest, and differences of integers are exact.
    before = sizes.flatten().cumsum(0).view_as(sizes) - sizes
    before = before - before[:, :1]
    cut = ranked.index_select(1, state.seed_and_length[2:])
    total = torch.where(ranked >= cut, sizes, 0).sum(-1, keepdim=True)
    inside = before < (total * state.sampling_params[1]).ceil().long()
    nucleus = ranked.gather(1, (inside.sum(-1, keepdim=True) - 1).clamp_min(0))
    cut = torch.maximum(torch.maximum(cut, nucleus), state.sampling_params[2] * MASS_ONE)
    mass = torch.where(ranked >= cut, sizes, 0).sum(-1, keepdim=True)
    return weights.masked_fill(weights < cut, 0.0), mass
