"""The weights of heads that were published for targets, by the target's description.

Sizes are those of the published ones: each is a few Llama layers as wide as the target.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.architecture import Architecture, Experts
from engine.models.sizes.weight_counts import layer_weights

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
