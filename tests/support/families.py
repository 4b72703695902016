"""Small random configurations of every family, and what makes their features show in 300 tokens."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.support.checkpoints import write_random

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
SIZES = {"initializer_range": 0.1, "uneven": 0.1, "intermediate_size": 52}
SLIDING = {"sliding_window": 24}
HALF_SLIDING = ["sliding_attention", "full_attention"]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.3, 1.6],
    "long_factor": [1.0, 2.0, 4.0, 8.0],
}
GEMMA3_ROPES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
GEMMA4_LAYERS = [
    f"{kind}_attention" for kind in "sliding full sliding sliding sliding full".split()
]
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 64}
HYBRID = {
    "num_hidden_layers": 4,
    "head_dim": 32,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 16,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
LLAMAS: dict[str, dict[str, Any]] = {
    "head_dim 8, groups of 2, tied": {},
    "head_dim 64, untied": {"hidden_size": 128, "head_dim": 64, "tie_word_embeddings": False},
    "one KV head": {"num_key_value_heads": 1},
    "a KV head for each head": {"num_key_value_heads": 4},
    "groups of 3, head_dim not hidden / heads": {
        "num_attention_heads": 6,
        "head_dim": 16,
        "hidden_size": 48,
        "intermediate_size": 52,
    },
    "biases": {"attention_bias": True, "mlp_bias": True},
    "llama3 rope": {"rope_parameters": LLAMA3},
    "linear rope": {"rope_parameters": {"rope_type": "linear", "factor": 4.0}},
    "dynamic rope": {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}},
    "yarn rope": {"rope_parameters": {**YARN, "attention_factor": 1.3}},
    "another theta and epsilon": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1234.5},
        "rms_norm_eps": 1e-3,
    },
}
GRANITE_HYBRID = {
    "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "intermediate_size": 64,
    "shared_intermediate_size": 64,
    "mamba_n_heads": 16,
    "mamba_expand": 4,
    "mamba_n_groups": 2,
    "mamba_d_state": 16,
    "embedding_multiplier": 6.0,
    "attention_multiplier": 0.25,
    "residual_multiplier": 0.5,
    "logits_scaling": 4.0,
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mistral": ("mistral", SLIDING),
    "mistral without window": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("qwen2", {}),
    "qwen2, later layers slide": (
        "qwen2",
        {**SLIDING, "use_sliding_window": True, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"head_dim": 16, "rope_parameters": YARN}),
    "qwen3, biases, a window": (
        "qwen3",
        {**SLIDING, "attention_bias": True, "use_sliding_window": True, "max_window_layers": 0},
    ),
    "qwen3.5": ("qwen3_5_text", HYBRID),
    "mixtral": ("mixtral", {"num_local_experts": 4, "tie_word_embeddings": False}),
    "qwen3-moe": (
        "qwen3_moe",
        {**EXPERTS, "num_hidden_layers": 3, "mlp_only_layers": [1], "norm_topk_prob": True},
    ),
    "olmoe": (
        "olmoe",
        {
            "num_experts": 8,
            "num_experts_per_tok": 3,
            "num_key_value_heads": 4,
            "tie_word_embeddings": False,
        },
    ),
    "gpt-oss": (
        "gpt_oss",
        {
            **SLIDING,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "pad_token_id": 0,
            "tie_word_embeddings": False,
        },
    ),
    "lfm2-moe": (
        "lfm2_moe",
        {
            **EXPERTS,
            "num_hidden_layers": 3,
            "num_dense_layers": 1,
            "layer_types": ["conv", "full_attention", "conv"],
            "routed_scaling_factor": 1.5,
            "pad_token_id": 0,
        },
    ),
    "glm4-moe": (
        "glm4_moe",
        {**EXPERTS, "n_routed_experts": 8, "use_qk_norm": True, "routed_scaling_factor": 1.5},
    ),
    "qwen3-next": (
        "qwen3_next",
        {
            **EXPERTS,
            **HYBRID,
            "num_experts": 20,
            "shared_expert_intermediate_size": 128,
            "layer_types": [f"{kind}_attention" for kind in "linear full linear linear".split()],
        },
    ),
    "qwen3.5-moe": (
        "qwen3_5_moe_text",
        {**EXPERTS, **HYBRID, "shared_expert_intermediate_size": 64},
    ),
    "lfm2": (
        "lfm2",
        {
            "num_hidden_layers": 3,
            "intermediate_size": 72,
            "block_multiple_of": 64,
            "layer_types": ["conv", "full_attention", "conv"],
        },
    ),
    "smollm3": ("smollm3", {"num_hidden_layers": 4, "pad_token_id": 0}),
    "gemma2": (
        "gemma2",
        {
            **SLIDING,
            "vocab_size": 323,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": (
        "gemma3_text",
        {
            **SLIDING,
            "layer_types": ["sliding_attention", "full_attention"],
            "query_pre_attn_scalar": 16,
            "rope_parameters": GEMMA3_ROPES,
        },
    ),
    "gemma4": (
        "gemma4_text",
        {
            **SLIDING,
            "num_hidden_layers": 6,
            "layer_types": GEMMA4_LAYERS,
            "num_kv_shared_layers": 3,
            "use_double_wide_mlp": True,
            "global_head_dim": 16,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": 320,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma4, experts": (
        "gemma4_text",
        {
            **SLIDING,
            "layer_types": GEMMA4_LAYERS[-2:],
            "global_head_dim": 16,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "num_experts": 8,
            "top_k_experts": 2,
            "moe_intermediate_size": 32,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma4, keys as values": (
        "gemma4_unified_text",
        {
            **SLIDING,
            "num_hidden_layers": 3,
            "layer_types": GEMMA4_LAYERS[-3:],
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "global_head_dim": 32,
            "final_logit_softcapping": 3.0,
        },
    ),
    "phi3": ("phi3", {**SLIDING, "pad_token_id": 0, "tie_word_embeddings": False}),
    "phi3, half turned": (
        "phi3",
        {
            "pad_token_id": 0,
            "num_key_value_heads": 4,
            "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},
        },
    ),
    "phi3, longrope": (
        "phi3",
        {"pad_token_id": 0, "original_max_position_embeddings": 64, "rope_parameters": LONGROPE},
    ),
    "granite": (
        "granite",
        {
            "embedding_multiplier": 6.0,
            "attention_multiplier": 0.2,
            "residual_multiplier": 0.4,
            "logits_scaling": 4.0,
        },
    ),
    "granite, hybrid": ("granitemoehybrid", GRANITE_HYBRID),
    "granite, hybrid, experts": (
        "granitemoehybrid",
        GRANITE_HYBRID | {"num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "ministral": ("ministral", {**SLIDING, "layer_types": HALF_SLIDING}),
    "ministral3": (
        "ministral3",
        {
            "pad_token_id": 0,
            "rope_parameters": {
                **YARN,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.5,
            },
        },
    ),
    "olmo2": ("olmo2", {"tie_word_embeddings": False}),
    "olmo3": (
        "olmo3",
        {
            **SLIDING,
            "layer_types": HALF_SLIDING,
            "rope_parameters": {"full_attention": YARN, "sliding_attention": {}},
            "tie_word_embeddings": False,
        },
    ),
    "exaone4": ("exaone4", {**SLIDING, "layer_types": HALF_SLIDING}),
    "exaone4, global": ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 2}),
    "hunyuan": (
        "hunyuan_v1_dense",
        {"rope_parameters": {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0}},
    ),
    "seed_oss": ("seed_oss", {"attention_out_bias": True, "tie_word_embeddings": False}),
    "ernie4_5": ("ernie4_5", {"use_bias": True}),
    "glm4": ("glm4", {"pad_token_id": 0, "tie_word_embeddings": False}),
    "cohere2": ("cohere2", {**SLIDING, "layer_types": HALF_SLIDING}),
    "starcoder2": ("starcoder2", SLIDING),
}
"""Every other family: transformers' kind, and what makes its features show in 300 tokens."""
MODELS = {name: ("llama", config) for name, config in LLAMAS.items()} | OTHERS


def write_family(folder: Path, name: str, **config: Any) -> Any:
    """One of ``MODELS``; returns transformers' model.

    Larger weights would amplify the last bits, in which even two correct decoders differ.
    """
    kind, own = deepcopy(MODELS[name])  # transformers fills in the settings of ropes
    return write_random(folder, kind, **{**SIZES, **own, **config})
