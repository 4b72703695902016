"""The names that most families give to tensors, for families that name the same parts differently.

A checkpoint's tensors are listed and fetched under the common names, as a GGUF file's are.
"""

from __future__ import annotations

from collections.abc import Mapping

_LFM2 = {
    "embedding_norm": "norm",
    "operator_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "self_attn.q_layernorm": "self_attn.q_norm",
    "self_attn.k_layernorm": "self_attn.k_norm",
    "self_attn.out_proj": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w3": "mlp.up_proj",
    "feed_forward.w2": "mlp.down_proj",
}
_LFM2_MOE = {
    **_LFM2,
    "feed_forward.expert_bias": "mlp.gate.e_score_correction_bias",
    "feed_forward": "mlp",
    "w1": "gate_proj",
    "w3": "up_proj",
    "w2": "down_proj",
}
_MIXTRAL = {
    "block_sparse_moe": "mlp",
    "w1": "gate_proj",
    "w3": "up_proj",
    "w2": "down_proj",
}
_GEMMA4 = {"router.proj": "mlp.gate", "experts": "mlp.experts"}
PARTS: Mapping[str, Mapping[str, str]] = {
    "gemma4_text": _GEMMA4,
    "glm4": {
        "post_attention_layernorm": "pre_feedforward_layernorm",
        "post_self_attn_layernorm": "post_attention_layernorm",
        "post_mlp_layernorm": "post_feedforward_layernorm",
    },
    "glm4_moe": {"mlp.shared_experts": "mlp.shared_expert"},
    "gpt_oss": {"mlp.router": "mlp.gate"},
    "granitemoehybrid": {
        "block_sparse_moe.router.layer": "mlp.gate",
        "block_sparse_moe.input_linear": "mlp.experts.gate_up_proj",
        "block_sparse_moe.output_linear": "mlp.experts.down_proj",
        "shared_mlp.input_linear": "mlp.shared_expert.gate_up_proj",
        "shared_mlp.output_linear": "mlp.shared_expert.down_proj",
    },
    "hunyuan_v1_dense": {"query_layernorm": "q_norm", "key_layernorm": "k_norm"},
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2_MOE,
    "mixtral": _MIXTRAL,
    "starcoder2": {"c_fc": "up_proj", "c_proj": "down_proj"},
}
"""By ``model_type``: parts of names in transformers' checkpoints -> the common ones."""


def common_name(model_type: object, name: str) -> str:
    """Return the common name of a tensor that a checkpoint of ``model_type`` calls ``name``."""
    for own, common in PARTS.get(str(model_type), {}).items():
        name = f"{name}.".replace(f".{own}.", f".{common}.").removesuffix(".")
    return name
