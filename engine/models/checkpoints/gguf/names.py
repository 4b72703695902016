"""llama.cpp's names of each family's tensors, and how its converter changed them.

It interleaves the rotary pairs of Llama's queries and keys, and stores the norms of Gemma and Qwen3.5 as
1 + w. Of a gated delta net it stores A_log as -exp(A_log), and the value heads in another order.
Source: llama.cpp's convert_hf_to_gguf.py and gguf-py's tensor_mapping.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.errors import ModelError
from engine.models.checkpoints.config_file import refusal, uncomputed

OUTER_PARTS: Mapping[str, str] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
}
"""llama.cpp's names outside the layers -> transformers', for every architecture."""
_OUTER_PARTS_OF: Mapping[str, Mapping[str, str]] = {
    architecture: {"token_embd_norm": "model.norm"} for architecture in ("lfm2", "lfm2moe")
}
"""Those that only some architectures have."""
ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS = (
    "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
)  # fmt: skip
"""Divisors of the rotary frequencies: settings rather than weights."""

_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_gate_up_exps": "mlp.experts.gate_up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}
_MOE = {**_ATTENTION, **_EXPERTS}
_SHARED_EXPERT = {
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
_LLAMA = {**_ATTENTION, **_MLP, "ffn_norm": "post_attention_layernorm"}
_GEMMA = {
    **_ATTENTION,
    **_MLP,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_HYBRID = {
    **_ATTENTION,
    **_MLP,
    **_HEAD_NORMS,
    "post_attention_norm": "post_attention_layernorm",
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
}
_LFM2 = {
    **_LLAMA,
    **_HEAD_NORMS,
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
}

_OLMO = {part: name for part, name in _GEMMA.items() if part not in ("attn_norm", "ffn_norm")}

LAYER_PARTS: Mapping[str, Mapping[str, str]] = {
    "llama": _LLAMA | _EXPERTS,  # Mixtral
    "mistral3": _LLAMA,
    "granite": _LLAMA,
    "granitehybrid": {
        **_LLAMA,
        **_EXPERTS,
        **_SHARED_EXPERT,
        "ssm_in": "mamba.in_proj",
        "ssm_conv1d": "mamba.conv1d",
        "ssm_norm": "mamba.norm",
        "ssm_out": "mamba.out_proj",
    },
    "granitemoe": _LLAMA | _EXPERTS | _SHARED_EXPERT,
    "minicpm": _LLAMA,
    "ernie4_5": _LLAMA,
    "cohere2": _LLAMA,
    "starcoder2": _LLAMA,
    "hunyuan-dense": _LLAMA | _HEAD_NORMS,
    "seed_oss": {**_ATTENTION, **_MLP, "post_attention_norm": "post_attention_layernorm"},
    "olmo2": _OLMO | _HEAD_NORMS,
    "exaone4": _OLMO | _HEAD_NORMS,
    "glm4": _GEMMA | {"ffn_up": "mlp.gate_up_proj"},
    "qwen2": _LLAMA,
    "qwen3": _LLAMA | _HEAD_NORMS,
    "qwen3moe": _LLAMA | _HEAD_NORMS | _EXPERTS,
    "olmoe": _MOE | _HEAD_NORMS | {"ffn_norm": "post_attention_layernorm"},
    "gpt-oss": _MOE | {"post_attention_norm": "post_attention_layernorm"},
    "glm4moe": {
        **_MOE,
        **_MLP,
        **_HEAD_NORMS,
        **_SHARED_EXPERT,
        "post_attention_norm": "post_attention_layernorm",
    },
    "gemma4": {
        **_GEMMA,
        **_HEAD_NORMS,
        "inp_gate": "per_layer_input_gate",
        "proj": "per_layer_projection",
        "post_norm": "post_per_layer_input_norm",
        **_EXPERTS,
        "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
        "post_ffw_norm_1": "post_feedforward_layernorm_1",
        "post_ffw_norm_2": "post_feedforward_layernorm_2",
    },
    "smollm3": _LLAMA,
    "gemma2": _GEMMA,
    "gemma3": _GEMMA | _HEAD_NORMS,
    "qwen35": _HYBRID,
    "qwen35moe": _HYBRID | _EXPERTS | _SHARED_EXPERT,
    "qwen3next": {
        **_HYBRID,
        **_EXPERTS,
        **_SHARED_EXPERT,
        "ssm_in": "linear_attn.in_proj_qkvz",
        "ssm_ba": "linear_attn.in_proj_ba",
    },
    "lfm2": _LFM2,
    "lfm2moe": _LFM2 | _EXPERTS,
    "phi3": {
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attn.qkv_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.gate_up_proj",
        "ffn_down": "mlp.down_proj",
    },
}
"""llama.cpp's names within a layer -> transformers', by architecture."""

_NEXTN = {
    "nextn.eh_proj": "eh_proj",
    "nextn.enorm": "enorm",
    "nextn.hnorm": "hnorm",
    "nextn.shared_head_norm": "shared_head.norm",
}
"""Of blocks that draft for the others (MTP), beside the parts of a layer. Others repeat the target's."""
INTERLEAVED = (
    "llama", "mistral3", "granite", "granitehybrid", "granitemoe", "minicpm", "smollm3",
)  # fmt: skip
"""Architectures whose queries and keys the converter gave interleaved rotary pairs. Those of ERNIE, GLM-4
and Cohere have them in any file."""
_RATES = {"ssm_a": "linear_attn.A_log", "ssm_dt.bias": "linear_attn.dt_bias"}
"""Of a gated delta net. Transformers' names have no suffix."""
_STATE_SPACE = {"ssm_a": "mamba.A_log", "ssm_dt.bias": "mamba.dt_bias", "ssm_d": "mamba.D"}
"""Of Mamba-2, likewise."""
_BARE = {
    "attn_sinks.weight": "self_attn.sinks",
    "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
}
"""Of attention and routers, likewise."""
_SCALAR = {"layer_output_scale.weight": "layer_scalar", "ffn_gate_inp.scale": "router.scale"}
"""Of Gemma 4, likewise."""
CENTRED = ("gemma2", "gemma3", "qwen35", "qwen35moe", "qwen3next")
"""Architectures whose norms are stored as 1 + w."""


HEADS = ("eagle3", "dflash", "gemma4-assistant")
"""Architectures that draft for a model; see ``gguf.heads``."""


class TensorRole(NamedTuple):
    """What a tensor of the file is, and how to undo what the converter did to it.

    name         transformers' name
    interleaved  its rows are interleaved rotary pairs of each head
    keys         it has as many heads as the keys have
    centred      1 was added to it
    decay        it is -exp(A_log)
    squeezed     its second axis, of size 1, was dropped
    row          its first axis, of size 1, was dropped
    flat         it has one axis more
    """

    name: str
    interleaved: bool = False
    keys: bool = False
    centred: bool = False
    decay: bool = False
    squeezed: bool = False
    row: bool = False
    flat: bool = False


def is_factor(architecture: str, name: str) -> bool:
    """Return whether the tensor ``name`` is a factor of another: in NVFP4, or of each expert."""
    own = architecture == "gemma4" and name.endswith(tuple(_SCALAR))
    return name.endswith((".scale", ".input_scale")) and not own


def role_of(architecture: str, name: str) -> TensorRole | None:
    """Return the role of the tensor ``name`` of a file; None if no such model has it."""
    block, _, rest = name.partition(".")
    number, _, part = rest.partition(".")
    mamba = architecture == "granitehybrid"
    rates = _STATE_SPACE if mamba else _RATES
    if part in rates and "ssm_norm" in LAYER_PARTS[architecture]:
        rate = f"model.layers.{number}.{rates[part]}"
        return TensorRole(rate, decay=part == "ssm_a", flat=mamba)
    if part in _BARE:
        return TensorRole(f"model.layers.{number}.{_BARE[part]}")
    if part in _SCALAR and architecture == "gemma4":
        return TensorRole(f"model.layers.{number}.{_SCALAR[part]}")
    stem, _, kind = name.rpartition(".")
    if kind not in ("weight", "bias"):
        return None
    centred = architecture in CENTRED and stem.endswith("norm") and not stem.endswith("ssm_norm")
    outer = OUTER_PARTS.get(stem) or _OUTER_PARTS_OF.get(architecture, {}).get(stem)
    if outer is not None:
        return TensorRole(f"{outer}.{kind}", centred=centred)
    part = part.removesuffix(f".{kind}")
    own = LAYER_PARTS[architecture].get(part)
    if block != "blk" or not number.isdecimal() or own is None:
        return None
    interleaved = architecture in INTERLEAVED and part in ("attn_q", "attn_k")
    return TensorRole(
        f"model.layers.{number}.{own}.{kind}",
        interleaved,
        keys=part == "attn_k",
        centred=centred,
        squeezed=part in ("ssm_conv1d", "shortconv.conv") and kind == "weight",
        row=part == "ffn_gate_inp_shexp",
        flat=mamba and part == "ssm_norm",
    )


def drafting_role(architecture: str, name: str) -> TensorRole | None:
    """Return the role of a tensor of the blocks that draft; None: it is not read."""
    _, number, part = name.split(".", 2)
    stem, _, kind = part.rpartition(".")
    if stem in _NEXTN and kind == "weight":
        centred = architecture in CENTRED and stem.endswith("norm")
        return TensorRole(f"model.layers.{number}.{_NEXTN[stem]}.weight", centred=centred)
    return role_of(architecture, name)


def check_architecture(file: object, architecture: object) -> str:
    """Return the architecture. Raises ModelError that names it if it is not supported."""
    if isinstance(architecture, str) and architecture in LAYER_PARTS:
        return architecture
    if architecture == "clip":
        raise ModelError(
            f"{file} is the vision part of a model (mmproj), not the model itself. Give the "
            "model's file beside it."
        )
    if architecture in HEADS:
        raise ModelError(
            f"{file} is a head ({architecture!r}), not a model. Load it with its target."
        )
    if layers := uncomputed(architecture):
        raise ModelError(refusal(f"{file} ({architecture!r})", layers))
    raise ModelError(
        f"{file} has the architecture {architecture!r}, which is not supported from "
        f"GGUF; supported are {', '.join(LAYER_PARTS)}. Choose one of these, or the "
        "model's safetensors repository."
    )
