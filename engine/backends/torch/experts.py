"""Mixtures of experts in torch: a row's bits do not depend on how other rows are routed.

An expert multiplies all rows that chose it at once, by linear layers whose rows are independent. A row's
results are added in the order of its choices, the best first.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.backends.layer_decoder import mlp, norm
from engine.backends.operations import Arithmetic
from engine.kernels.native.library import Matrix
from engine.kernels.torch.linear import Linear
from engine.models.activations import by_rows
from engine.models.architecture import Experts
from engine.models.weights import ExpertsWeights

_SMALLEST_SUM = 1e-20
"""Added to the scores' sum before they are divided by it, as DeepSeek V3 does."""


def mix(ops: Arithmetic, spec: Experts, weights: ExpertsWeights, x: Tensor) -> tuple[Tensor, int]:
    """Return the mixture's result (rows, hidden) for normed ``x``, and how many experts it read."""
    logits, norms = weights.router(x.float()), weights.norms
    chosen, scores = route(spec, logits[:, : spec.count], weights.score_bias)
    if weights.score_scale is not None:
        scores = scores * weights.score_scale[chosen]
    width = spec.intermediate

    def run(expert: int, rows: Tensor) -> Tensor:
        if isinstance(weights.gate_up, tuple):
            gate, up = weights.gate_up[expert](rows).chunk(2, dim=1)
        else:
            gate, up = (
                _part(weights.gate_up, rows, at, width) for at in (expert, spec.count + expert)
            )
        if spec.clamp is not None:
            gate, up = gate.clamp(max=spec.clamp), up.clamp(-spec.clamp, spec.clamp) + 1
        active = ops.activate(spec.activation, gate, times=up)
        if isinstance(weights.down, tuple):
            return weights.down[expert](active)
        return _part(weights.down, active, expert, x.shape[1])

    rows = x if norms is None else (x * norms.experts).to(x.dtype)
    total = add_chosen(run, rows, chosen, scores)
    if weights.shared is not None:
        rows = x if norms is None else (x * norms.shared).to(x.dtype)
        shared = mlp(ops, spec.activation, weights.shared, rows).float()
        if norms is not None:
            total = norm(ops, norms.experts_after, total)
            shared = norm(ops, norms.shared_after, shared)
        if spec.shared_gate:
            shared = shared * by_rows(torch.sigmoid)(logits[:, spec.count :])
        total = total + shared
    return total.to(x.dtype), len(chosen.unique())


def _part(stacked: Linear, x: Tensor, number: int, outputs: int) -> Tensor:
    """Return a part of a layer of all experts, which is compiled: see ``ExpertsWeights``."""
    assert isinstance(stacked, Matrix)
    return stacked.part(x, number * outputs, outputs)


def route(spec: Experts, logits: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return each row's experts, the best first, and their scores: both (rows, chosen).

    logits (rows, count). Of equal scores the first expert's wins.
    """
    scores = by_rows(torch.sigmoid if spec.sigmoid else _softmax)(logits)
    ranked = scores if bias is None else scores + bias
    chosen = ranked.argsort(dim=-1, descending=True, stable=True)[:, : spec.chosen]
    scores = scores.gather(1, chosen)
    if spec.renormalised:
        scores = scores / (in_order(scores) + _SMALLEST_SUM)[:, None]
    return chosen, scores * spec.scale


def _softmax(logits: Tensor) -> Tensor:
    return torch.softmax(logits, dim=-1)


def add_chosen(
    run: Callable[[int, Tensor], Tensor], x: Tensor, chosen: Tensor, scores: Tensor
) -> Tensor:
    """Return the sum of ``run(expert, rows)`` times the score over each row's experts, in float32.

    x (rows, hidden); chosen, scores (rows, choices). The host waits for a GPU once.
    """
    experts, choices = chosen.flatten(), chosen.shape[1]
    results = x.new_empty(len(experts), x.shape[1], dtype=torch.float32)
    shares = scores.flatten()[:, None].float()
    counts = experts.bincount().tolist()
    for expert, places in enumerate(experts.argsort(stable=True).split(counts)):
        if len(places):
            results[places] = run(expert, x[places // choices]).float() * shares[places]
    return in_order(results.unflatten(0, chosen.shape))


def in_order(x: Tensor) -> Tensor:
    """Return the sum over the second axis, added one after the other."""
    first, *others = x.unbind(1)
    return sum(others, start=first)
