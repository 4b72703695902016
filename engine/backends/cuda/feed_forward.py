"""Feed-forwards of fused linear kernels: gated MLPs, mixtures of experts, and layers' own inputs.

A mixture of few rows asks the device nothing: each row's experts are read there, and multiplied by one
launch for all. So a captured round may have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.backends.torch.experts import add_chosen, in_order, route
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.experts import ExpertsLinear
from engine.kernels.cuda.linear.fusion import Norm, normalise
from engine.kernels.torch.factory import Embedding
from engine.kernels.torch.linear import Linear
from engine.models.activations import Activation, by_rows
from engine.models.architecture import Experts
from engine.models.weights import MixtureNorms
from engine.values import MAX_ROWS


@dataclass(frozen=True, slots=True)
class CudaMlp:
    """A gated MLP. ``gate`` is applied to the result of ``gate_up`` if the kernel does not apply it."""

    gate_up: BulkLinear  # with the norm before it, if there is one
    gate: Activation | None
    down: BulkLinear

    def inner(self, x: Tensor) -> Tensor:
        """Return what ``down`` takes."""
        return _gated(self.gate_up(x), self.gate)


@dataclass(frozen=True, slots=True)
class CudaExperts:
    """A mixture of experts. Parts that the model lacks are None; ``gate`` as in ``CudaMlp``."""

    spec: Experts
    norm: Norm | None
    router: Linear  # hidden -> count, and the shared expert's gate; float32
    score_bias: Tensor | None
    gate_up: ExpertsLinear
    gate: Activation | None
    down: ExpertsLinear
    shared: CudaMlp | None
    norms: MixtureNorms | None
    score_scale: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Return the mixture's result (rows, hidden) for ``x``."""
        normed = x if self.norm is None else normalise(x, self.norm)
        logits = self.router(normed.float())
        chosen, scores = route(self.spec, logits[:, : self.spec.count], self.score_bias)
        if self.score_scale is not None:
            scores = scores * self.score_scale[chosen]
        norms = self.norms
        rows = normed if norms is None else (normed * norms.experts).to(x.dtype)
        if len(x) <= MAX_ROWS:
            total = self._few(rows, chosen, scores)
        else:
            total = add_chosen(self._expert, rows, chosen, scores)
        if self.shared is not None:
            rows = normed if norms is None else (normed * norms.shared).to(x.dtype)
            result = self.shared.down(self.shared.inner(rows)).float()
            if norms is not None:
                total = normalise(total, norms.experts_after)
                result = normalise(result, norms.shared_after)
            if self.spec.shared_gate:
                result = result * by_rows(torch.sigmoid)(logits[:, self.spec.count :])
            total = total + result
        return total.to(x.dtype)

    def _few(self, x: Tensor, chosen: Tensor, scores: Tensor) -> Tensor:
        """Return what ``add_chosen`` does; each row is computed by itself."""
        experts = chosen.flatten().int()
        each = x[:, None].expand(-1, self.spec.chosen, -1).flatten(0, 1)
        results = self.down(_gated(self.gate_up(each, experts), self.gate), experts)
        return in_order(results.view(*chosen.shape, -1).float() * scores[..., None])

    def _expert(self, expert: int, rows: Tensor) -> Tensor:
        return self.down.of(expert)(_gated(self.gate_up.of(expert)(rows), self.gate))


@dataclass(frozen=True, slots=True)
class CudaOwnInput:
    """What adds a layer's own input to its result (``Architecture.per_layer_width``)."""

    gate: BulkLinear  # hidden -> width
    activation: Activation
    output: BulkLinear  # width -> hidden
    after: Norm

    def __call__(self, x: Tensor, own: Tensor) -> Tensor:
        """Return ``x (rows, hidden)`` with the ``own`` input (rows, width)."""
        inner = by_rows(self.activation)(self.gate(x)) * own
        return normalise(self.output(inner), self.after, x)


@dataclass(frozen=True, slots=True)
class CudaOwnInputs:
    """What makes the own inputs of all layers; see ``PerLayerWeights``."""

    projection: BulkLinear
    norm: Norm
    embedding: Embedding
    scale: float

    def __call__(self, ids: Tensor, x: Tensor) -> Tensor:
        """Return (rows, layers, width) for ``ids (rows,)`` and embedded ``x (rows, hidden)``."""
        width = len(self.norm.weight)
        projected = normalise(self.projection(x).view(-1, width), self.norm)
        embedded = self.embedding(ids).to(x.dtype).view_as(projected)
        return torch.add(projected, embedded, alpha=self.scale).view(len(x), -1, width)


def _gated(gate_up: Tensor, gate: Activation | None) -> Tensor:
    return gate_up if gate is None else gate(gate_up)


def gate_of(function: Activation, clamp: float | None = None) -> Activation:
    """Return what applies a gate to ``gate_up (rows, 2 * width)``, whose first half are its outputs.

    ``clamp``: see ``Experts``.
    """

    def apply(gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        if clamp is not None:
            gate, up = gate.clamp(max=clamp), up.clamp(-clamp, clamp) + 1
        return by_rows(function)(gate) * up

    return apply
