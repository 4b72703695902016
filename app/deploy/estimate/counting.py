"""Count a model's weights, and those that one token uses, from its config.json.

The counts are exact: tests compare them with published checkpoints. They are those of the tensors that
the engine would read (engine/models/tensor_shapes.py), and for families that it does not run those of a
description with layers of the same sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
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
    for key, most in _MOST.items():
        size = config.get(key)
        if not isinstance(size, list | None) and (type(size) is not int or not 1 <= size <= most):
            raise ModelError(
                f"{key} is {size!r} in config.json; it must be a whole number, 1 to {most:,}. Use the "
                "config.json that was published with the weights."
            )
    architecture = described_by(_READ_AS[kind](config) if kind in _READ_AS else config)
    if architecture is None:
        raise ModelError(
            f"Models of type '{kind}' are not supported for launch plans (supported: the "
            f"families in docs/models.md, and {', '.join(_READ_AS)}), or a size in config.json is wrong."
        )
    counts = count_weights(architecture)
    last = layer_weights(architecture, architecture.layers[-1])
    if is_latent(config):
        more = _latent(config) - _attention(architecture)
        layers = {_with_more(each, more): count for each, count in counts.layers.items()}
        counts, last = replace(counts, layers=layers), _with_more(last, more)
    return Counted(architecture, counts, last)


_MOST: Mapping[str, int] = MappingProxyType(
    {
        "num_hidden_layers": 10_000,
        **dict.fromkeys(
            (
                "hidden_size",
                "intermediate_size",
                "vocab_size",
                "num_attention_heads",
                "num_key_value_heads",
                "head_dim",
                "moe_intermediate_size",
                "max_position_embeddings",
            ),
            10**9,
        ),
    }
)
"""Sizes that are whole numbers, or one for each layer, and the most that one may be."""


def is_latent(config: Config) -> bool:
    """Return whether the model has latent attention."""
    return bool(config.get("kv_lora_rank"))


def _with_more(layer: LayerWeights, more: int) -> LayerWeights:
    return replace(layer, fixed=layer.fixed + more)


def _plainly(config: Config, family: str, **keys: Any) -> Config:
    """Return ``config`` as one of ``family``, with other ``keys``, without what changes no size."""
    left_out = ("rope_", "quantization_config", "architectures", "text_config", "index_")
    kept = {key: value for key, value in config.items() if not key.startswith(left_out)}
    return {**kept, "model_type": family, **keys}


def _deepseek(config: Config) -> Config:
    """Return GLM-4.5's configuration with DeepSeek's sizes: the same layers but for their attention.

    That is the one of heads that were published for such targets: four products of the full width.
    """
    heads = config["hidden_size"] // 128
    return _plainly(
        config,
        "glm4_moe",
        n_group=1,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        head_dim=128,
    )


def _llama4(config: Config) -> Config:
    """Return Llama 4: every ``interleave_moe_layer_step``-th layer has experts and a shared one."""
    layers = config["num_hidden_layers"]
    return _plainly(
        config,
        "glm4_moe",
        n_routed_experts=config["num_local_experts"],
        moe_intermediate_size=config["intermediate_size"],
        intermediate_size=config["intermediate_size_mlp"],
        n_shared_experts=1,
        use_qk_norm=False,  # it has no weights
        first_k_dense_replace=layers - layers // config.get("interleave_moe_layer_step", 1),
    )


def _minimax(config: Config) -> Config:
    return _plainly(
        config,
        "glm4_moe",
        n_routed_experts=config["num_local_experts"],
        moe_intermediate_size=config["intermediate_size"],
        n_shared_experts=0,
        first_k_dense_replace=0,
    )


_READ_AS: Mapping[str, Callable[[Config], Config]] = MappingProxyType(
    {
        "deepseek_v3": _deepseek,
        "deepseek_v32": _deepseek,
        "kimi_k2": _deepseek,
        "glm_moe_dsa": _deepseek,  # GLM-5
        "llama4": _llama4,
        "llama4_text": _llama4,
        "minimax_m2": _minimax,
        "qwen3_vl_text": lambda config: _plainly(config, "qwen3"),
        "qwen3_vl_moe_text": lambda config: _plainly(config, "qwen3_moe"),
    }
)
"""Families that the engine has no description of, as one that has layers of the same sizes."""


def _attention(architecture: Architecture) -> int:
    shapes = layer_shapes(architecture, architecture.layers[-1])
    return sum(math.prod(size) for name, size in shapes.items() if name.startswith("self_attn."))


def _latent(config: Config) -> int:
    """Count multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), and the indexer of DeepSeek
    Sparse Attention (its V3.2-Exp's report), where there is one."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    query_rank, rank = config["q_lora_rank"], config["kv_lora_rank"]
    rope, nope, value = (
        config[key] for key in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    )
    queries = hidden * query_rank + query_rank + query_rank * heads * (nope + rope)
    keys = hidden * (rank + rope) + rank + rank * heads * (nope + value)
    indexer = 0
    if index := config.get("index_head_dim"):
        count = config["index_n_heads"]
        indexer = query_rank * count * index + hidden * (index + count) + 2 * index
    return int(queries + keys + heads * value * hidden + indexer)
