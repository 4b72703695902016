"""Count a model's weights, and those that one token uses, from its config.json.

The counts are exact: tests compare them with published checkpoints. They are those of the tensors that
the engine would read (engine/models/tensor_shapes.py), and for DeepSeek V3 those of a description that
differs in its attention alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ModelError
from engine.models.architecture import Architecture
from engine.models.families import described_by
from engine.models.sizes.weight_counts import (
    LayerWeights,
    WeightCounts,
    count_weights,
    layer_weights,
)
from engine.models.tensor_shapes import layer_shapes

Config = Mapping[str, Any]
LATENT = "deepseek_v3"
"""The ``model_type`` that the engine has no description of."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A model's description and weights; ``last``: those of its last layer."""

    architecture: Architecture
    counts: WeightCounts
    last: LayerWeights


def describe(config: Config) -> Counted:
    """Return the model of ``config``. Raises ModelError for an unknown family, KeyError for a missing
    key."""
    kind = str(config.get("model_type", "unknown"))
    for key in ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"):
        config[key]  # raises
    architecture = described_by(_as_grouped(config) if kind == LATENT else config)
    if architecture is None:
        raise ModelError(
            f"Models of type '{kind}' cannot be counted for a launch plan: neither the engine's families "
            f"(docs/models.md) nor {LATENT} describe this configuration."
        )
    counts = count_weights(architecture)
    last = layer_weights(architecture, architecture.layers[-1])
    if kind == LATENT:
        more = _latent(config) - _attention(architecture)
        layers = {_with_more(each, more): count for each, count in counts.layers.items()}
        counts, last = replace(counts, layers=layers), _with_more(last, more)
    return Counted(architecture, counts, last)


def _with_more(layer: LayerWeights, more: int) -> LayerWeights:
    return replace(layer, fixed=layer.fixed + more)


def _as_grouped(config: Config) -> Config:
    """Return GLM-4.5's configuration with DeepSeek's sizes: the same layers but for their attention.

    That is the one of heads that were published for such targets: four products of the full width.
    """
    heads = config["hidden_size"] // 128
    attention = {"num_attention_heads": heads, "num_key_value_heads": heads // 2, "head_dim": 128}
    return {**config, **attention, "model_type": "glm4_moe"}


def _attention(architecture: Architecture) -> int:
    shapes = layer_shapes(architecture, architecture.layers[-1])
    return sum(math.prod(size) for name, size in shapes.items() if name.startswith("self_attn."))


def _latent(config: Config) -> int:
    """Count multi-head latent attention (DeepSeek-V2, arXiv 2405.04434)."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    query_rank, rank = config["q_lora_rank"], config["kv_lora_rank"]
    rope, nope, value = (
        config[key] for key in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    )
    queries = hidden * query_rank + query_rank + query_rank * heads * (nope + rope)
    keys = hidden * (rank + rope) + rank + rank * heads * (nope + value)
    return int(queries + keys + heads * value * hidden)
