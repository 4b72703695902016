"""Count a decoder's weights, and those that one token is multiplied with, by its description.

Heads have the sizes of the published ones: each is a few Llama layers as wide as the target.
"""

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
        return self.chosen / self.active

    @property
    def chosen(self) -> int:
        """Weights of the experts that a token chooses."""
        return sum(count * layer.chosen * layer.expert for layer, count in self.layers.items())

    @property
    def fixed(self) -> int:
        """Weights of layers that every token is multiplied with."""
        return sum(count * layer.fixed for layer, count in self.layers.items())


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


EAGLE3_VOCABULARY = 32_000
"""``draft_vocab_size`` of yuhuili's heads."""
DFLASH_LAYERS = DFLASH_AUX_LAYERS = 5
"""Layers of z-lab/Qwen3-8B-DFlash-b16, and layers of the target whose hidden states it reads."""


AUX_LAYERS = {"eagle": 1, "eagle3": 3, "dflash": DFLASH_LAYERS, "dspark": DFLASH_LAYERS, "mtp": 1}
"""Hidden states of each token that are kept for a head, by its method."""


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """``parameters`` of a head, and its ``layers``, which attend as the target's do."""

    parameters: int
    layers: int


def head_weights(method: str, target: Architecture) -> HeadWeights | None:
    """Return the weights of ``method``'s head for ``target``; None if they are not known."""
    square = target.hidden**2
    match method:
        case "eagle":
            return HeadWeights(llama_layer(target, 1) + 2 * square, 1)
        case "eagle3":
            own = 3 * square + EAGLE3_VOCABULARY * target.hidden
            return HeadWeights(llama_layer(target, 2) + own, 1)
        case "dflash" | "dspark":
            layers = DFLASH_LAYERS * llama_layer(target, 1)
            return HeadWeights(layers + DFLASH_AUX_LAYERS * square, DFLASH_LAYERS)
        case "mtp":
            layer = layer_weights(target, target.layers[-1]).total
            return HeadWeights(layer + 2 * square + 3 * target.hidden, 1)
    return None


def llama_layer(target: Architecture, joined: int) -> int:
    """Return the weights of a Llama layer whose attention reads ``joined`` hidden states."""
    attention, hidden = target.attentions[-1], target.hidden
    queries, keys = (count * attention.head_dim for count in (attention.heads, attention.kv_heads))
    return hidden * (joined * (queries + 2 * keys) + queries + 3 * _intermediate(target))


def _intermediate(target: Architecture) -> int:
    """Return the width of the target's MLPs, or of all experts that a token chooses."""
    widths = (
        each.chosen * each.intermediate if isinstance(each, Experts) else each.intermediate
        for each in (spec.feed_forward for spec in target.layers)
    )
    return max(widths)
