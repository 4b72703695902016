"""Count a model's weights, those that one token uses, and what it caches, from its config.json.

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
from engine.models.architecture import Architecture, Recurrent
from engine.models.families import described_by
from engine.models.sizes.weight_counts import (
    LayerWeights,
    WeightCounts,
    count_weights,
    layer_weights,
)
from engine.models.tensor_shapes import layer_shapes
from engine.values.memory import kv_numbers

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cache:
    """What a network keeps of a sequence. ``cached``: numbers that all layers without a window cache of
    a token, ``windowed`` those with one. ``products``: FLOP of a row for each number. ``shards``: into
    how many parts it can be split. ``state``: bytes of the recurrent states."""

    cached: int
    products: float
    shards: int
    windowed: int = 0
    window: int = 0
    state: int = 0

    def numbers(self, context: int) -> int:
        """Return the numbers in the cache of a sequence of ``context`` tokens."""
        return self.cached * context + self.windowed * min(context, self.window)

    def bytes(self, context: int, kv_width: float, states: int = 1) -> float:
        """Return the bytes of a sequence: its cache, and each of its ``states`` of recurrent layers."""
        return self.numbers(context) * kv_width + states * self.state


@dataclass(frozen=True, slots=True)
class Counted:
    """A model's description, weights and cache; ``last``: weights of its last layer. ``latent``: numbers
    that latent attention caches of a token in a layer; 0 for other attention."""

    architecture: Architecture
    counts: WeightCounts
    last: LayerWeights
    cache: Cache
    latent: int


def describe(config: Config) -> Counted:
    """Return the model of ``config``. Raises ModelError for an unknown family, KeyError for a missing
    key."""
    kind = str(config.get("model_type", "unknown"))
    for key in ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"):
        config[key]  # raises
    for key, most in {"num_hidden_layers": 10_000, **dict.fromkeys(_SIZES, 10**9)}.items():
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
    latent = _latent_numbers(config) if config.get("kv_lora_rank") else 0
    if latent:
        more = _latent_weights(config) - _attention(architecture)
        layers = {_with_more(each, more): count for each, count in counts.layers.items()}
        counts, last = replace(counts, layers=layers), _with_more(last, more)
    return Counted(architecture, counts, last, _cache(config, architecture, latent), latent)


_SIZES = (
    "hidden_size intermediate_size vocab_size num_attention_heads num_key_value_heads head_dim "
    "moe_intermediate_size max_position_embeddings"
).split()
"""Sizes that are whole numbers, or one for each layer."""


def _cache(config: Config, architecture: Architecture, latent: int) -> Cache:
    """Return the cache: latent attention has one head, and reads each number twice. States are in
    float32, as ``mamba_ssm_dtype`` has it in Qwen3.5's config.json, beside the rows that the convolution
    reads again, in 16 bits."""
    heads = config["num_attention_heads"]
    states = [each.mixer for each in architecture.layers if isinstance(each.mixer, Recurrent)]
    state = sum(
        4 * each.state_numbers + 2 * (each.kernel - 1) * each.row_numbers for each in states
    )
    if latent:
        return Cache(latent * len(architecture.layers), 4.0 * heads, 1, state=state)
    window = max((each.window or 0 for each in architecture.attentions), default=0)
    own = [each for each in architecture.attentions if each.shared_with is None]
    numbers = [(kv_numbers(each.kv_heads, each.head_dim), each.window) for each in own]
    kv_heads = config.get("num_key_value_heads", heads)
    full = sum(size for size, window in numbers if window is None)
    windowed = sum(size for size, window in numbers if window is not None)
    return Cache(full, 2.0 * heads / kv_heads, kv_heads, windowed, window, state)


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
    attention = {"num_attention_heads": heads, "num_key_value_heads": heads // 2, "head_dim": 128}
    return _plainly(config, "glm4_moe", n_group=1, **attention)


def _llama4(config: Config) -> Config:
    """Return Llama 4: every ``interleave_moe_layer_step``-th layer has experts and a shared one."""
    layers = config["num_hidden_layers"]
    return _plainly(
        _minimax(config),
        "glm4_moe",
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


SCALE_BYTES = 4
"""Of the scale of an indexer's key."""


def _latent_numbers(config: Config) -> int:
    """Return what latent attention caches of a token in a layer, and the indexer of sparse attention."""
    index = config.get("index_head_dim")
    indexer = (index + SCALE_BYTES) // 2 if index else 0  # in FP8, with a scale: half a number each
    return int(config["kv_lora_rank"] + config["qk_rope_head_dim"] + indexer)


def _latent_weights(config: Config) -> int:
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
