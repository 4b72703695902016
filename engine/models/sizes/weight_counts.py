"""Count a decoder's weights, and those that one token is multiplied with, by its description."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from engine.models.architecture import Architecture, Experts, LayerSpec
from engine.models.tensor_shapes import Names, layer_shapes, outer_shapes

_EXPERT = "mlp.experts.0."


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """``fixed``: what every token is multiplied with, norms included; ``expert``: one of ``experts``, of
    which a token chooses ``chosen``."""

    fixed: int
    expert: int = 0
    experts: int = 0
    chosen: int = 0

    @property
    def total(self) -> int:
        return self.fixed + self.experts * self.expert

    @property
    def active(self) -> int:
        return self.fixed + self.chosen * self.expert


@dataclass(frozen=True, slots=True)
class WeightCounts:
    """``head`` is 0 if it is the embedding. ``rest``: the final norm, and what makes layers' own inputs.
    ``layers`` by how often there is one."""

    embedding: int
    head: int
    rest: int
    layers: Mapping[LayerWeights, int]

    @property
    def total(self) -> int:
        layers = sum(count * layer.total for layer, count in self.layers.items())
        return self.embedding + self.head + self.rest + layers

    @property
    def active(self) -> int:
        """Weights that a token is multiplied with: without the input embedding and unused experts."""
        layers = sum(count * layer.active for layer, count in self.layers.items())
        return layers + (self.head or self.embedding)

    @property
    def expert_share(self) -> float:
        """The experts' part of ``active``."""
        chosen = sum(count * layer.chosen * layer.expert for layer, count in self.layers.items())
        return chosen / self.active


def count_weights(architecture: Architecture) -> WeightCounts:
    """Return the weights of the whole decoder."""
    embedding = architecture.vocabulary * architecture.hidden
    head = 0 if architecture.tied else embedding
    layers = Counter[LayerWeights]()
    for spec, count in Counter(architecture.layers).items():
        layers[layer_weights(architecture, spec)] += count
    rest = _sum(outer_shapes(architecture, Names())) - embedding - head
    return WeightCounts(embedding, head, rest, layers)


def share_read(architecture: Architecture | None) -> float:
    """Return the share of a model's weights that one token reads: of a mixture the ``active`` ones, else
    all."""
    counts = None if architecture is None else count_weights(architecture)
    return counts.active / counts.total if counts and counts.expert_share else 1.0


def layer_weights(architecture: Architecture, spec: LayerSpec) -> LayerWeights:
    """Return the weights of one layer."""
    mixture, shapes = spec.feed_forward, layer_shapes(architecture, spec)
    if not isinstance(mixture, Experts):
        return LayerWeights(_sum(shapes))
    expert = _sum({name: size for name, size in shapes.items() if name.startswith(_EXPERT)})
    fixed = _sum(shapes) - mixture.count * expert
    return LayerWeights(fixed, expert, mixture.count, mixture.chosen)


def _sum(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(map(math.prod, shapes.values()))
