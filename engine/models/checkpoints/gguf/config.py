"""Convert a GGUF file's metadata to the config.json that transformers has for the same model.

Families read that, so they need not know GGUF. What llama.cpp has built in and the file lacks (Gemma's
windows and scales, SmolLM3's layers without positions) is here, with its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.gguf.layer_types import (
    layer_types,
    recurrent_types,
    sliding_layers,
    sliding_window,
    types_by_kv_heads,
    window_fields,
)
from engine.models.checkpoints.gguf.names import LAYER_PARTS
from engine.models.checkpoints.gguf.rope import both_ropes, rope_in_images, rope_parameters
from engine.models.checkpoints.gguf.settings import Settings

_CLASSES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "mistral3": ("Ministral3ForCausalLM", "ministral3"),
    "granite": ("GraniteForCausalLM", "granite"),
    "granitehybrid": ("GraniteMoeHybridForCausalLM", "granitemoehybrid"),
    "granitemoe": ("GraniteMoeHybridForCausalLM", "granitemoehybrid"),
    "minicpm": ("MiniCPMForCausalLM", "minicpm"),
    "olmo2": ("Olmo2ForCausalLM", "olmo2"),
    "exaone4": ("Exaone4ForCausalLM", "exaone4"),
    "hunyuan-dense": ("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense"),
    "seed_oss": ("SeedOssForCausalLM", "seed_oss"),
    "ernie4_5": ("Ernie4_5ForCausalLM", "ernie4_5"),
    "glm4": ("Glm4ForCausalLM", "glm4"),
    "cohere2": ("Cohere2ForCausalLM", "cohere2"),
    "starcoder2": ("Starcoder2ForCausalLM", "starcoder2"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "qwen3moe": ("Qwen3MoeForCausalLM", "qwen3_moe"),
    "qwen3next": ("Qwen3NextForCausalLM", "qwen3_next"),
    "qwen35": ("Qwen3_5ForCausalLM", "qwen3_5_text"),
    "qwen35moe": ("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3"),
    "gemma2": ("Gemma2ForCausalLM", "gemma2"),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text"),
    "gemma4": ("Gemma4ForCausalLM", "gemma4_text"),
    "phi3": ("Phi3ForCausalLM", "phi3"),
    "lfm2": ("Lfm2ForCausalLM", "lfm2"),
    "lfm2moe": ("Lfm2MoeForCausalLM", "lfm2_moe"),
    "olmoe": ("OlmoeForCausalLM", "olmoe"),
    "gpt-oss": ("GptOssForCausalLM", "gpt_oss"),
    "glm4moe": ("Glm4MoeForCausalLM", "glm4_moe"),
}
"""Transformers' class and ``model_type``, by architecture."""
_MIXTRAL = "MixtralForCausalLM", "mixtral"
"""Those of "llama" with experts."""
_EXPERT_SIZES = (
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
)
_SMOLLM3_EVERY = 4
"""Every fourth layer has no positions (llama.cpp's smollm3.cpp)."""
_LAYER_NORMS = ("cohere2", "starcoder2")
"""Architectures with LayerNorms, whose epsilon has another key."""
_SLIDING_THETA = 10_000.0
"""The rope base of the sliding layers of Gemma 3 and 4."""
_LARGEST_GEMMAS = {"gemma2": 46, "gemma3": 62}
"""Layers of the 27B models, whose query scale assumes heads of hidden / heads numbers."""


def config_from(
    settings: Settings, tensors: frozenset[str], factors: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """Return the configuration of a model. Raises ModelError.

    ``tensors``: transformers' names. ``factors``: divisors of the rotary frequencies, ``long`` and
    ``short``; empty if there are none.
    """
    architecture = settings.architecture
    experts = settings.optional_size("expert_count")
    if experts and "ffn_down_exps" not in LAYER_PARTS[architecture]:
        raise ModelError(
            f"{settings.file} has {experts} experts in each layer, which is not supported "
            f"for {architecture} from GGUF. Use the model's safetensors repository."
        )
    name, model_type = _MIXTRAL if experts and architecture == "llama" else _CLASSES[architecture]
    hidden, heads = settings.size("embedding_length"), settings.size("attention.head_count")
    head_dim = settings.size("attention.key_length", max(hidden // heads, 1))
    if settings.size("attention.value_length", head_dim) != head_dim:
        raise settings.wrong(
            "attention.value_length", settings.optional("attention.value_length"), str(head_dim)
        )
    first = 0 if architecture == "gemma4" else None  # its layers differ in these two
    epsilon = "layer_norm_epsilon" if architecture in _LAYER_NORMS else "layer_norm_rms_epsilon"
    biased = {
        part: f"model.layers.0.{part}_proj.bias" in tensors
        for part in ("self_attn.q", "self_attn.o", "mlp.gate")
    }
    config: dict[str, Any] = {
        "architectures": [name],
        "model_type": model_type,
        "hidden_size": hidden,
        "num_hidden_layers": settings.layers - settings.drafting_layers,
        "num_nextn_predict_layers": settings.drafting_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": _kv_heads(settings, heads, first),
        "head_dim": head_dim,
        "max_position_embeddings": settings.size("context_length"),
        "rms_norm_eps": settings.number(f"attention.{epsilon}"),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "attention_bias": biased["self_attn.q"],
        "attention_out_bias": biased["self_attn.o"],
        "mlp_bias": biased["mlp.gate"],
        "use_bias": biased["self_attn.q"],
        "use_qk_norm": "model.layers.0.self_attn.q_norm.weight" in tensors,
        "rope_parameters": rope_parameters(settings, head_dim, factors),
    }
    if experts:
        config |= _experts(settings, experts)
    if not experts or settings.optional("feed_forward_length"):
        config["intermediate_size"] = settings.size("feed_forward_length", layer=first)
    if architecture == "gemma4":
        return config | _gemma4(settings, config, tensors, factors)
    return config | _family_fields(settings, config)


def _experts(settings: Settings, count: int) -> dict[str, Any]:
    """Return the fields of a mixture. llama.cpp has built in that the chosen experts' scores are divided
    by their sum, but for OLMoE (its models/qwen3moe.cpp, olmoe.cpp and others)."""
    return {
        "num_experts": count,
        "num_experts_per_tok": settings.size("expert_used_count"),
        "norm_topk_prob": settings.architecture != "olmoe",
        "routed_scaling_factor": settings.number("expert_weights_scale", 1.0),
        **{name: settings.size(key) for key, name in _EXPERT_SIZES if settings.optional(key)},
    }


def _family_fields(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that only one family has."""
    match settings.architecture:
        case "smollm3":
            return {"no_rope_layer_interval": _SMOLLM3_EVERY}
        case "phi3":
            return {"sliding_window": sliding_window(settings)}
        case "gemma2" | "gemma3":
            return _gemma(settings, config)
        case "granite":
            return _granite(settings, config)
        case "granitehybrid":
            return _granite(settings, config) | _mamba2(settings, config)
        case "granitemoe":
            return _granite(settings, config) | {
                "layer_types": ["full_attention"] * config["num_hidden_layers"],
                "num_local_experts": settings.size("expert_count"),
                "shared_intermediate_size": config.get("shared_expert_intermediate_size", 0),
            }
        case "minicpm":
            hidden, layers = config["hidden_size"], config["num_hidden_layers"]
            return {
                "scale_emb": settings.number("embedding_scale"),
                "scale_depth": settings.number("residual_scale") * layers**0.5,
                "dim_model_base": hidden / settings.number("logit_scale"),
            }
        case "olmo2":
            return _olmo(settings, config)
        case "exaone4":
            return window_fields(settings, config)
        case "cohere2":
            return window_fields(settings, config) | {
                "logit_scale": settings.number("logit_scale"),
                "layer_norm_eps": config["rms_norm_eps"],
            }
        case "glm4":
            # The text parts of GLM-4.1V and 4.6V: the converter has put the pairs of these in halves.
            return {"rope_interleaved": not any(settings.optional("rope.dimension_sections") or ())}
        case "starcoder2":
            return {"norm_epsilon": config["rms_norm_eps"]}
        case "qwen35" | "qwen35moe" | "qwen3next":
            return (
                gated_delta(settings)
                | recurrent_types(settings, config)
                | rope_in_images(settings, config)
            )
        case "lfm2" | "lfm2moe":
            return _short_convolution(settings, config)
        case "gpt-oss":
            rope = {**config["rope_parameters"], "truncate": False}
            return {"sliding_window": sliding_window(settings), "rope_parameters": rope}
        case "glm4moe":
            return {
                "n_routed_experts": settings.size("expert_count"),
                "n_shared_experts": settings.size("expert_shared_count", 1),
                "first_k_dense_replace": settings.optional_size("leading_dense_block_count") or 0,
                "n_group": settings.optional_size("expert_group_count") or 1,
                "norm_topk_prob": settings.optional("expert_weights_norm") is not False,
            }
    return {}


def _kv_heads(settings: Settings, default: int, layer: int | None) -> int:
    """Return the key-value heads of ``layer`` or all that attend; the others of a list have 0."""
    key = "attention.head_count_kv"
    listed = settings.optional(key)
    attending = [each for each in listed if each] if isinstance(listed, list) else None
    return (
        settings.whole(key, attending)
        if attending and layer is None
        else settings.size(key, default, layer)
    )


def _gemma(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    architecture, layers = settings.architecture, int(config["num_hidden_layers"])
    head_dim = config["head_dim"]
    if layers == _LARGEST_GEMMAS[architecture]:
        head_dim = config["hidden_size"] // config["num_attention_heads"]
    fields = {"query_pre_attn_scalar": head_dim, **window_fields(settings, config)}
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if settings.optional(key):
            fields[key] = settings.number(key)
    if architecture == "gemma3":
        fields["rope_parameters"] = both_ropes(settings, config["rope_parameters"], _SLIDING_THETA)
    return fields


def _gemma4(
    settings: Settings,
    config: Mapping[str, Any],
    tensors: frozenset[str],
    factors: Mapping[str, Sequence[float]],
) -> dict[str, Any]:
    """Return Gemma 4's fields. Factors of 1 turn a pair of a global head, huge ones leave it as it is."""
    sliding = sliding_layers(settings, int(config["num_hidden_layers"]))
    local, last = sliding.index(True) if any(sliding) else 0, len(sliding) - 1
    turned = [factor == 1 for factor in factors.get("long", ())] or [True]
    global_rope = {
        "rope_type": "proportional",
        "rope_theta": settings.number("rope.freq_base"),
        "partial_rotary_factor": sum(turned) / len(turned),
    }
    fields: dict[str, Any] = {
        "head_dim": settings.size("attention.key_length_swa"),
        "global_head_dim": config["head_dim"],
        "num_key_value_heads": settings.size("attention.head_count_kv", layer=local),
        "num_global_key_value_heads": settings.size("attention.head_count_kv", layer=last),
        "use_double_wide_mlp": settings.size("feed_forward_length", layer=last)
        > config["intermediate_size"],
        "num_kv_shared_layers": settings.optional_size("attention.shared_kv_layers") or 0,
        "hidden_size_per_layer_input": settings.optional_size("embedding_length_per_layer_input"),
        "sliding_window": sliding_window(settings),
        "layer_types": layer_types(sliding),
        "rope_parameters": both_ropes(settings, global_rope, _SLIDING_THETA),
    }
    if "num_experts" in config:
        fields |= {"enable_moe_block": True, "top_k_experts": config["num_experts_per_tok"]}
    makers = len(sliding) - fields["num_kv_shared_layers"]
    global_ = next((at for at, slides in enumerate(sliding[:makers]) if not slides), last)
    fields["attention_k_eq_v"] = f"model.layers.{global_}.self_attn.v_proj.weight" not in tensors
    if settings.optional("final_logit_softcapping"):
        fields["final_logit_softcapping"] = settings.number("final_logit_softcapping")
    return fields


def _granite(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    # llama.cpp's switch of the rope.
    turns = settings.optional("rope.scaling.finetuned") is not False
    return {
        "attention_multiplier": settings.number("attention.scale", config["head_dim"] ** -0.5),
        "embedding_multiplier": settings.number("embedding_scale", 1.0),
        "residual_multiplier": settings.number("residual_scale", 1.0),
        "logits_scaling": settings.number("logit_scale"),
        "position_embedding_type": "rope" if turns else "nope",
    }


def _olmo(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return OLMo 3's fields if layers slide; the rope's scaling concerns the others alone."""
    rope = config["rope_parameters"]
    if sliding_window(settings) is None:
        return {}
    return {
        "architectures": ["Olmo3ForCausalLM"],
        "model_type": "olmo3",
        "rope_parameters": both_ropes(settings, rope, rope["rope_theta"]),
        **window_fields(settings, config),
    }


def gated_delta(settings: Settings) -> dict[str, Any]:
    value_heads = settings.size("ssm.time_step_rank")
    return {
        "full_attention_interval": settings.size("full_attention_interval", 4),
        "linear_num_key_heads": settings.size("ssm.group_count"),
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": settings.size("ssm.state_size"),
        "linear_value_head_dim": settings.size("ssm.inner_size") // value_heads,
        "linear_conv_kernel_dim": settings.size("ssm.conv_kernel"),
        "linear_value_heads_tiled": settings.architecture != "qwen3next",
    }


def _mamba2(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    heads = settings.size("ssm.time_step_rank")  # llama.cpp keeps the heads there
    key = "expert_shared_feed_forward_length"
    return {
        "layer_types": types_by_kv_heads(settings, config, "mamba"),
        "shared_intermediate_size": settings.size(key, config.get("intermediate_size")),
        "num_local_experts": config.get("num_experts"),
        "mamba_n_heads": heads,
        "mamba_d_head": settings.size("ssm.inner_size") // heads,
        "mamba_n_groups": settings.size("ssm.group_count"),
        "mamba_d_state": settings.size("ssm.state_size"),
        "mamba_d_conv": settings.size("ssm.conv_kernel"),
    }


def _short_convolution(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "layer_types": types_by_kv_heads(settings, config, "conv"),
        "conv_L_cache": settings.size("shortconv.l_cache"),
        "norm_eps": config["rms_norm_eps"],
        "block_auto_adjust_ff_dim": False,
        "num_dense_layers": settings.optional_size("leading_dense_block_count") or 0,
    }
