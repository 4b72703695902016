"""Count a model's weights, and those that one token uses, from its config.json.

The counts are exact: tests compare them with published checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError

Config = Mapping[str, Any]

FAMILIES = frozenset(
    {
        "llama", "mistral", "ministral3", "qwen2", "qwen3", "qwen3_moe", "mixtral", "deepseek_v3",
        "gpt_oss", "glm4_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next",
    }
)  # fmt: skip
"""The ``model_type`` values that can be counted."""
HYBRIDS = frozenset({"qwen3_5", "qwen3_5_moe", "qwen3_next"})
"""Those whose layers are gated delta nets (arXiv 2412.06464) but each ``full_attention_interval``-th."""
LINEAR_HEAD, LINEAR_KERNEL = 128, 4
"""Defaults of their configuration: the width of a head, and of the convolution before it."""
_MIXTURES = (
    "qwen3_moe",
    "mixtral",
    "deepseek_v3",
    "gpt_oss",
    "glm4_moe",
    "qwen3_5_moe",
    "qwen3_next",
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Weights of the parts; ``attention``, ``dense``, ``expert``, ``router_and_shared`` of one layer.

    ``attention`` includes the layer's norms; ``router_and_shared`` is the router and the shared experts.
    ``dense_layers`` have no experts. ``head`` is 0 if it is tied to the embedding. ``linear`` is what
    ``linear_layers`` have in the place of ``attention``.
    """

    embedding: int
    head: int
    attention: int
    dense: int
    dense_layers: int
    expert: int
    experts: int
    active_experts: int
    router_and_shared: int
    expert_layers: int
    final_norm: int
    linear: int = 0
    linear_layers: int = 0

    @property
    def expert_layer(self) -> int:
        return self.attention + self.experts * self.expert + self.router_and_shared

    @property
    def layers(self) -> int:
        return (
            self.dense_layers * (self.attention + self.dense)
            + self.expert_layers * self.expert_layer
            + self.linear_layers * (self.linear - self.attention)
        )

    @property
    def total(self) -> int:
        return self.embedding + self.head + self.layers + self.final_norm

    @property
    def active(self) -> int:
        """Weights that a token is multiplied with: without the input embedding and unused experts."""
        unused = self.expert_layers * (self.experts - self.active_experts) * self.expert
        return self.layers - unused + (self.head or self.embedding)


def count(config: Config) -> Counts:
    """Count the weights of the model of ``config``. Raises ModelError for unknown families."""
    kind = str(config.get("model_type", ""))
    if kind not in FAMILIES:
        raise ModelError(
            f"Models of type '{kind or 'unknown'}' cannot be counted for a launch plan. Known are "
            f"{', '.join(sorted(FAMILIES))}."
        )
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    embedding = config["vocab_size"] * hidden
    attention = (_latent if kind == "deepseek_v3" else _grouped)(config) + 2 * hidden
    dense, dense_layers = 3 * hidden * config["intermediate_size"], layers
    expert = experts = active = router_and_shared = 0
    if kind in _MIXTURES:
        expert, experts, active, router_and_shared = _experts(config, kind)
        dense_layers = config.get("first_k_dense_replace", 0)
    return Counts(
        embedding,
        0 if config.get("tie_word_embeddings") else embedding,
        attention,
        dense,
        dense_layers,
        expert,
        experts,
        active,
        router_and_shared,
        layers - dense_layers,
        hidden,
        _delta_net(config) + 2 * hidden if kind in HYBRIDS else 0,
        linear_layers(config),
    )


def linear_layers(config: Config) -> int:
    """Return how many layers keep a recurrent state in the place of keys and values."""
    if config["model_type"] not in HYBRIDS:
        return 0
    layers = int(config["num_hidden_layers"])
    return layers - layers // int(config.get("full_attention_interval") or 4)


def linear_widths(config: Config) -> tuple[int, int]:
    """Return the widths of all keys and of all values of a gated delta net."""
    key, value = (
        int(config.get(f"linear_{one}_head_dim") or LINEAR_HEAD) for one in ("key", "value")
    )
    return config["linear_num_key_heads"] * key, config["linear_num_value_heads"] * value


def _delta_net(config: Config) -> int:
    """Count a gated delta net: queries, keys, values and the gate, a convolution over the first three,
    two numbers for each head from the input and two of its own, a norm, and the output."""
    hidden, heads = config["hidden_size"], config["linear_num_value_heads"]
    keys, values = linear_widths(config)
    mixed = 2 * keys + values
    return int(
        hidden * (mixed + values + 2 * heads)
        + mixed * LINEAR_KERNEL
        + 2 * heads
        + values // heads
        + values * hidden
    )


def head_dim(config: Config) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _grouped(config: Config) -> int:
    """Count grouped-query attention: four projections, and what families add."""
    hidden, heads, dim = config["hidden_size"], config["num_attention_heads"], head_dim(config)
    queries, keys = heads * dim, config.get("num_key_value_heads", heads) * dim
    products = hidden * (2 * queries + 2 * keys)
    kind = config["model_type"]
    if kind == "gpt_oss":  # biases on all four, and a sink for each head
        return int(products + queries + 2 * keys + hidden + heads)
    if kind in ("qwen2", "glm4_moe") or config.get("attention_bias"):
        products += queries + 2 * keys
    if kind in HYBRIDS:  # a gate for each query
        products += hidden * queries
    if kind in ("qwen3", "qwen3_moe", *HYBRIDS):
        products += 2 * dim  # norms of queries and keys
    return int(products)


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


def _experts(config: Config, kind: str) -> tuple[int, int, int, int]:
    """Return an expert's weights, experts, active experts, and ``router_and_shared`` of a layer."""
    hidden = config["hidden_size"]
    keys = ("num_experts", "n_routed_experts", "num_local_experts")
    experts = next(config[key] for key in keys if key in config)
    width = config.get("moe_intermediate_size", config["intermediate_size"])
    expert = 3 * hidden * width
    router_and_shared = hidden * experts
    if kind in HYBRIDS:  # a shared expert and its gate
        router_and_shared += 3 * hidden * config["shared_expert_intermediate_size"] + hidden
    if kind in ("deepseek_v3", "glm4_moe"):  # a correction for each expert, and shared experts
        router_and_shared += experts + config.get("n_shared_experts", 0) * expert
    if kind == "gpt_oss":  # biases everywhere
        expert += 2 * width + hidden
        router_and_shared += experts
    return expert, experts, config["num_experts_per_tok"], router_and_shared
