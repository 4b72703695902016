"""GGUF files of small checkpoints of every family, made as llama.cpp's converter makes them.

Names come from the package ``gguf``, which the converter takes them from; what it does to tensors and
which settings it writes is said again here, so that reading is not tested by its own tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.numpy import load_file

from engine.kernels.formats.block_rounding import to_blocks
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.gguf.tokenizers.vocabulary import read_vocabulary

Tensors = dict[str, np.ndarray]
Kind = Callable[[str, np.ndarray], str]
ARCHITECTURES = {
    "LlamaForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "Qwen2ForCausalLM": gguf.MODEL_ARCH.QWEN2,
    "Qwen3ForCausalLM": gguf.MODEL_ARCH.QWEN3,
    "Qwen3MoeForCausalLM": gguf.MODEL_ARCH.QWEN3MOE,
    "Qwen3NextForCausalLM": gguf.MODEL_ARCH.QWEN3NEXT,
    "Qwen3_5ForCausalLM": gguf.MODEL_ARCH.QWEN35,
    "Qwen3_5MoeForCausalLM": gguf.MODEL_ARCH.QWEN35MOE,
    "MixtralForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "OlmoeForCausalLM": gguf.MODEL_ARCH.OLMOE,
    "GptOssForCausalLM": gguf.MODEL_ARCH.GPT_OSS,
    "Lfm2MoeForCausalLM": gguf.MODEL_ARCH.LFM2MOE,
    "Glm4MoeForCausalLM": gguf.MODEL_ARCH.GLM4_MOE,
    "SmolLM3ForCausalLM": gguf.MODEL_ARCH.SMOLLM3,
    "Gemma2ForCausalLM": gguf.MODEL_ARCH.GEMMA2,
    "Gemma3ForCausalLM": gguf.MODEL_ARCH.GEMMA3,
    "Gemma4ForCausalLM": gguf.MODEL_ARCH.GEMMA4,
    "Gemma4UnifiedForCausalLM": gguf.MODEL_ARCH.GEMMA4,
    "Phi3ForCausalLM": gguf.MODEL_ARCH.PHI3,
    "Lfm2ForCausalLM": gguf.MODEL_ARCH.LFM2,
    "MistralForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "GraniteForCausalLM": gguf.MODEL_ARCH.GRANITE,
    "GraniteMoeHybridForCausalLM": gguf.MODEL_ARCH.GRANITE_HYBRID,
    "MiniCPMForCausalLM": gguf.MODEL_ARCH.MINICPM,
    "Ministral3ForCausalLM": gguf.MODEL_ARCH.MISTRAL3,
    "Olmo2ForCausalLM": gguf.MODEL_ARCH.OLMO2,
    "Olmo3ForCausalLM": gguf.MODEL_ARCH.OLMO2,
    "Exaone4ForCausalLM": gguf.MODEL_ARCH.EXAONE4,
    "HunYuanDenseV1ForCausalLM": gguf.MODEL_ARCH.HUNYUAN_DENSE,
    "SeedOssForCausalLM": gguf.MODEL_ARCH.SEED_OSS,
    "Ernie4_5ForCausalLM": gguf.MODEL_ARCH.ERNIE4_5,
    "Glm4ForCausalLM": gguf.MODEL_ARCH.GLM4,
    "Cohere2ForCausalLM": gguf.MODEL_ARCH.COHERE2,
    "Starcoder2ForCausalLM": gguf.MODEL_ARCH.STARCODER2,
}
AS_THE_FILE_HAS_IT: dict[str, dict[str, Any]] = {
    "gemma2": {"query_pre_attn_scalar": 8},
    "gemma3": {"query_pre_attn_scalar": 8, "layer_types": ["sliding_attention"] * 2},
    "qwen3-moe": {"mlp_only_layers": []},
    "seed_oss": {"attention_out_bias": False},
    "ernie4_5": {"use_bias": False},
    "starcoder2": {"sliding_window": None},
}
"""What llama.cpp computes, where a file cannot say otherwise."""
TURNED = ("llama", "mistral3", "granite", "granitehybrid", "granitemoe", "minicpm", "smollm3")
"""Architectures whose queries and keys the converter turns."""
NEXTN = {
    "mtp.fc.weight": "eh_proj",
    "mtp.pre_fc_norm_embedding.weight": "enorm",
    "mtp.pre_fc_norm_hidden.weight": "hnorm",
    "mtp.norm.weight": "shared_head_norm",
}


def all_in(kind: str) -> Kind:
    """Matrices in ``kind``, vectors in F32, as llama.cpp wants them."""
    return lambda name, weight: kind if weight.ndim > 1 else "F32"


def write_gguf(
    folder: Path,
    file: Path,
    kind: Kind | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    edit: Callable[[Tensors], object] = lambda tensors: None,
    tensors_in_a_file: int = 0,
) -> Path:
    """The checkpoint in ``folder`` as a GGUF file, or as several with so many tensors each.

    ``kind`` tells what a tensor is stored in, by its name and weight; None is F32 for all. ``values`` go
    over the metadata, None takes one away; ``edit`` changes the tensors, by llama.cpp's names.
    """
    kind = kind or all_in("F32")
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    if "vision_config" in config:
        config, weights = _text_alone(config, weights)
    architecture = ARCHITECTURES[config["architectures"][0]]
    if config.get("mamba_n_heads") and "linear_attention" not in config["layer_types"]:
        architecture = gguf.MODEL_ARCH.GRANITE_MOE
    name = gguf.MODEL_ARCH_NAMES[architecture]
    writer = gguf.GGUFWriter(file, name, split_max_tensors=tensors_in_a_file)
    _describe(writer, folder, config)
    metadata = writer.kv_data[0]
    for key, value in (values or {}).items():
        metadata.pop(key, None)
        if value is not None:
            writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    tensors = _converted(weights, config, architecture)
    edit(tensors)
    for key, weight in tensors.items():
        stored = gguf.GGMLQuantizationType[kind(key, weight)]
        own = _K_BLOCKS.get(stored.name)
        data = gguf.quants.quantize(weight, stored) if own is None else own(weight)
        writer.add_tensor(key, data, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _in_q4_k(weight: np.ndarray) -> np.ndarray:
    data = to_blocks("q4_k", torch.from_numpy(weight)).data
    assert isinstance(data, torch.Tensor)
    return data.numpy()


def _in_q6_k(weight: np.ndarray) -> np.ndarray:
    """Codes of six bits around 32: lower halves, upper bits, a scale for 16 inputs and one for all."""
    groups = weight.reshape(-1, 16, 16)
    steps = np.abs(groups).max(-1) / 31
    whole = (steps.max(-1, keepdims=True) / 127).astype(np.float16)
    scales = np.ceil(steps / np.maximum(whole, 1e-8)).clip(0, 127).astype(np.int8)
    step = np.maximum(scales * whole.astype(np.float32), 1e-8)[..., None]
    codes = (np.rint(groups / step).clip(-32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = (codes[:, :, :2] & 15) | (codes[:, :, 2:] & 15) << 4
    high = (codes >> 4 << np.array([0, 2, 4, 6], np.uint8)[:, None]).sum(2, dtype=np.uint8)
    blocks = [part.reshape(len(groups), -1).view(np.uint8) for part in (low, high, scales, whole)]
    return np.concatenate(blocks, axis=1).reshape(len(weight), -1)


_K_BLOCKS = {"Q4_K": _in_q4_k, "Q6_K": _in_q6_k}
"""What the package ``gguf`` cannot quantise to."""


def _text_alone(config: dict[str, Any], weights: Tensors) -> tuple[dict[str, Any], Tensors]:
    """What the file of a model that sees images has: its text part."""
    name = config["architectures"][0].replace("ForConditionalGeneration", "ForCausalLM")
    text = {
        key.replace("language_model.", ""): weight
        for key, weight in weights.items()
        if "visual." not in key
    }
    return {**config["text_config"], "architectures": [name]}, text


def _describe(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    checkpoint, vocabulary = inspect(folder), read_vocabulary(inspect(folder))
    writer.add_name("random")
    writer.add_context_length(checkpoint.context)
    writer.add_embedding_length(checkpoint.hidden)
    drafting = (config.get("num_nextn_predict_layers") or 1) if checkpoint.has_mtp else 0
    writer.add_block_count(checkpoint.layers + drafting)
    if drafting:
        writer.add_nextn_predict_layers(drafting)
    if config.get("intermediate_size"):
        writer.add_feed_forward_length(_feed_forward(config))
    if config.get("num_experts_per_tok"):
        _describe_experts(writer, config)
    writer.add_head_count(checkpoint.heads)
    writer.add_head_count_kv(_kv_heads(config, checkpoint.kv_heads))
    writer.add_key_length(checkpoint.head_dim)
    writer.add_value_length(checkpoint.head_dim)
    if epsilon := config.get("layer_norm_eps") or config.get("norm_epsilon"):
        writer.add_layer_norm_eps(epsilon)
    else:
        writer.add_layer_norm_rms_eps(config.get("rms_norm_eps") or config["norm_eps"])
    _describe_ropes(writer, config, checkpoint.head_dim)
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if config["model_type"] in ("olmo3", "exaone4", "cohere2"):
        slides = [kind == "sliding_attention" for kind in config["layer_types"]]
        writer.add_sliding_window_pattern(slides)
    if "gemma4" in config["model_type"]:
        _describe_gemma4(writer, config)
    if config.get("linear_num_value_heads"):
        _describe_gated_delta(writer, config, drafting=drafting)
    if config.get("conv_L_cache"):
        writer.add_shortconv_l_cache(config["conv_L_cache"])
    if config.get("mamba_n_heads"):
        writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
        if "linear_attention" in config["layer_types"]:
            _describe_mamba2(writer, config)
    for key, add in (
        ("attn_logit_softcapping", writer.add_attn_logit_softcapping),
        ("final_logit_softcapping", writer.add_final_logit_softcapping),
        ("attention_multiplier", writer.add_attention_scale),
        ("embedding_multiplier", writer.add_embedding_scale),
        ("residual_multiplier", writer.add_residual_scale),
        ("logits_scaling", writer.add_logit_scale),
        ("logit_scale", writer.add_logit_scale),
        ("scale_emb", writer.add_embedding_scale),
    ):
        if config.get(key):
            add(config[key])
    if "scale_depth" in config:
        writer.add_residual_scale(config["scale_depth"] / checkpoint.layers**0.5)
        writer.add_logit_scale(config["hidden_size"] / config["dim_model_base"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.bos or 0)
    writer.add_eos_token_id(vocabulary.eos or 0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(vocabulary.chat_template or "")


def _feed_forward(config: dict[str, Any]) -> int:
    """LFM2 states it for two matrices, and rounds it up."""
    width: int = config["intermediate_size"]
    if not config.get("block_auto_adjust_ff_dim"):
        return width
    multiple: int = config["block_multiple_of"]
    return -(-int(2 * width / 3) // multiple) * multiple


def _kv_heads(config: dict[str, Any], heads: int) -> int | list[int]:
    """Of LFM2 and Granite's hybrids those of each layer, 0 for one that does not attend."""
    if "conv_L_cache" not in config and "mamba_n_heads" not in config:
        return heads
    return [heads if name == "full_attention" else 0 for name in config["layer_types"]]


def _describe_experts(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    counts = ("n_routed_experts", "num_experts", "num_local_experts")
    writer.add_expert_count(next(config[key] for key in counts if key in config))
    writer.add_expert_used_count(config["num_experts_per_tok"])
    if config["model_type"] in ("glm4_moe", "lfm2_moe"):
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config["model_type"] == "gpt_oss":
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    if "n_group" in config:
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
    for key, add in (
        ("moe_intermediate_size", writer.add_expert_feed_forward_length),
        ("shared_expert_intermediate_size", writer.add_expert_shared_feed_forward_length),
        ("num_dense_layers", writer.add_leading_dense_block_count),
        ("first_k_dense_replace", writer.add_leading_dense_block_count),
        ("n_shared_experts", writer.add_expert_shared_count),
        ("routed_scaling_factor", writer.add_expert_weights_scale),
    ):
        if config.get(key):
            add(config[key])


def _describe_gated_delta(
    writer: gguf.GGUFWriter, config: dict[str, Any], *, drafting: int
) -> None:
    value_heads = config["linear_num_value_heads"]
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(value_heads)
    writer.add_ssm_inner_size(config["linear_value_head_dim"] * value_heads)
    types = config["layer_types"] + ["full_attention"] * drafting
    if "qwen3_5" in config["model_type"]:
        sections = config["rope_parameters"].get("mrope_section", [11, 11, 10])
        writer.add_rope_dimension_sections([*sections, 0])
    recurs = [kind == "linear_attention" for kind in types]
    writer.add_array(f"{writer.arch}.attention.recurrent_layers", recurs)


def _describe_mamba2(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    heads = config["mamba_n_heads"]
    writer.add_ssm_conv_kernel(config["mamba_d_conv"])
    writer.add_ssm_state_size(config["mamba_d_state"])
    writer.add_ssm_group_count(config["mamba_n_groups"])
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(config["mamba_d_head"] * heads)
    writer.add_rope_scaling_finetuned(False)


def _describe_gemma4(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """What differs between its layers replaces what all have."""
    slides = [kind == "sliding_attention" for kind in config["layer_types"]]
    own, shared = config["per_layer_config"], config["num_kv_shared_layers"]
    heads = [
        own.get(str(at), {}).get("num_key_value_heads", config["num_key_value_heads"])
        for at in range(len(slides))
    ]
    width, makers = own[str(len(slides) - 1)]["head_dim"], len(slides) - shared
    wide = 2 if config["use_double_wide_mlp"] else 1
    for key in ("key_length", "value_length", "head_count_kv"):
        del writer.kv_data[0][f"gemma4.attention.{key}"]
    del (
        writer.kv_data[0]["gemma4.feed_forward_length"],
        writer.kv_data[0]["gemma4.rope.dimension_count"],
    )
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_head_count_kv(heads)
    writer.add_feed_forward_length(
        [config["intermediate_size"] * (wide if at >= makers else 1) for at in range(len(slides))]
    )
    writer.add_rope_dimension_count(width)
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    writer.add_sliding_window_pattern(slides)
    writer.add_shared_kv_layers(shared)
    if config.get("enable_moe_block"):
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_embedding_length_per_layer_input(config.get("hidden_size_per_layer_input") or 0)


def _describe_ropes(writer: gguf.GGUFWriter, config: dict[str, Any], head_dim: int) -> None:
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    stretched = rope.get("alpha", 1) ** (head_dim / (head_dim - 2))
    writer.add_rope_freq_base(rope["rope_theta"] * stretched)
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    match rope["rope_type"]:
        case "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        case "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(rope["factor"])
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            if "attention_factor" in rope:
                writer.add_rope_scaling_yarn_attn_factor(rope["attention_factor"])
            if "llama_4_scaling_beta" in rope:
                writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
                writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
        case "longrope":
            ratio = config["max_position_embeddings"] / config["original_max_position_embeddings"]
            sharpened = np.sqrt(
                1 + np.log(ratio) / np.log(config["original_max_position_embeddings"])
            )
            writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
            writer.add_rope_scaling_attn_factors(float(sharpened))


def _converted(tensors: Tensors, config: dict[str, Any], architecture: gguf.MODEL_ARCH) -> Tensors:
    layers = config["num_hidden_layers"]
    drafting = config.get("num_nextn_predict_layers") or 1
    names = gguf.get_tensor_name_map(architecture, layers + drafting)
    turned = gguf.MODEL_ARCH_NAMES[architecture] in TURNED
    centred = architecture in (
        gguf.MODEL_ARCH.GEMMA2, gguf.MODEL_ARCH.GEMMA3, gguf.MODEL_ARCH.QWEN35,
        gguf.MODEL_ARCH.QWEN35MOE, gguf.MODEL_ARCH.QWEN3NEXT,
    )  # fmt: skip
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    found: Tensors = {}
    rope = config["rope_parameters"]
    if rope.get("rope_type") == "longrope":
        for length in ("long", "short"):
            listed = np.array(rope[f"{length}_factor"], dtype=np.float32)
            found[f"rope_factors_{length}.weight"] = listed
    if architecture == gguf.MODEL_ARCH.GEMMA4:
        pairs = config["per_layer_config"][str(config["num_hidden_layers"] - 1)]["head_dim"] // 2
        turned_pairs = np.arange(pairs) < rope["full_attention"]["partial_rotary_factor"] * pairs
        found["rope_freqs.weight"] = np.where(turned_pairs, 1, 1e30).astype(np.float32)
    for name, plain in _with_stacked_experts(tensors).items():
        weight = plain
        if name.endswith("in_proj_qkvz.weight"):
            found |= _query_key_value_and_gates(name, weight, config)
            continue
        if "shared_mlp." in name or ("block_sparse_moe" in name and "linear" in name):
            found |= _granites_mlp(name, weight, config)
            continue
        part = name.split(".")[-2]
        if turned and part in heads:
            weight = as_llama_cpp_turns(weight, heads[part])
        norm = name.endswith("norm.weight") or (name in NEXTN and "norm" in name)
        if centred and norm and not name.endswith("linear_attn.norm.weight"):
            weight = weight + np.float32(1)
        source = name.replace(".dt_bias", ".dt_proj.bias")
        source = source.replace("mtp.layers.0.", f"model.layers.{layers}.")
        if name in NEXTN:
            found[f"blk.{layers}.nextn.{NEXTN[name]}.weight"] = weight
            continue
        if ".linear_attn." in name:
            reorders = architecture is not gguf.MODEL_ARCH.QWEN3NEXT
            weight = _as_llama_cpp_has_gated_delta(name, weight, config, reorders=reorders)
        if name.endswith((".conv.conv.weight", ".mamba.conv1d.weight")):
            weight = weight.squeeze(1)
        if name.endswith(".mamba.A_log"):
            weight = -np.exp(weight)
        if name.endswith((".mamba.A_log", ".mamba.D")):
            weight = weight[:, None]
        if name.endswith(".mamba.norm.weight"):
            weight = weight.reshape(config["mamba_n_groups"], -1)
        if ".router." in name and name.endswith("scale"):
            owner = "ffn_gate_inp" if name.endswith("router.scale") else "ffn_down_exps"
            found[f"blk.{name.split('.')[2]}.{owner}.scale"] = weight
            continue
        bare = ("layer_scalar", "sinks", ".experts.gate_up_proj", ".experts.down_proj")
        source += ".weight" if name.endswith(bare) else ""
        source = source.replace("e_score_correction_bias", "e_score_correction.bias")
        source += ".bias" if name.endswith("expert_bias") else ""
        target = names.get_name(source, try_suffixes=(".weight", ".bias"))
        assert target is not None, name
        found[target] = weight
    return found


def _granites_mlp(name: str, weight: np.ndarray, config: dict[str, Any]) -> Tensors:
    """What its converter does to the MLPs of Granite's hybrids: gate and up come apart."""
    layer, kind = f"blk.{name.split('.')[2]}", "_exps" if "block_sparse_moe" in name else ""
    if config["num_local_experts"] and not kind:
        kind = "_shexp"
    if "output_linear" in name:
        return {f"{layer}.ffn_down{kind}.weight": weight}
    gate, up = np.split(weight, 2, axis=-2)
    return {f"{layer}.ffn_gate{kind}.weight": gate, f"{layer}.ffn_up{kind}.weight": up}


_EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(.*)")


def _with_stacked_experts(tensors: Tensors) -> Tensors:
    """One tensor for all experts of a layer; Mixtral's by the names of its first files."""
    found: Tensors = {}
    experts: dict[str, dict[int, np.ndarray]] = {}
    for name, weight in tensors.items():
        joined = _JOINED_EXPERTS.fullmatch(name)
        if joined is not None and ".mlp." in name:
            found |= _experts_of_gpt_oss(joined, weight)
            continue
        expert = _EXPERT.fullmatch(name)
        if expert is None:
            found[name] = weight
        else:
            experts.setdefault(f"{expert[1]}.{expert[3]}", {})[int(expert[2])] = weight
    for name, each in experts.items():
        own = (
            name.replace("model.layers", "layers") if ".w" in name.replace(".weight", "") else name
        )
        found[own.replace("block_sparse_moe", "feed_forward")] = np.stack(
            [each[number] for number in range(len(each))]
        )
    return found


_JOINED_EXPERTS = re.compile(r"(.*\.experts\.)(gate_up|down)_proj(|_bias)")


def _experts_of_gpt_oss(joined: re.Match[str], weight: np.ndarray) -> Tensors:
    """What its converter does to gpt-oss: gates and the other factors come apart, outputs first."""
    prefix, part, kind = joined[1], joined[2], "bias" if joined[3] else "weight"
    weight = weight if kind == "bias" else weight.swapaxes(1, 2)
    parts = {"down": weight}
    if part == "gate_up":
        parts = {"gate": weight[:, ::2], "up": weight[:, 1::2]}
    return {
        f"{prefix}{name}_proj.{kind}": np.ascontiguousarray(each) for name, each in parts.items()
    }


def _query_key_value_and_gates(name: str, weight: np.ndarray, config: dict[str, Any]) -> Tensors:
    """What its converter does to Qwen3-Next: those of a key head come apart."""
    heads, key = config["linear_num_key_heads"], config["linear_key_head_dim"]
    value = config["linear_num_value_heads"] // heads * config["linear_value_head_dim"]
    by_head = weight.reshape(heads, -1, weight.shape[1])
    parts = np.split(by_head, [key, 2 * key, 2 * key + value], axis=1)
    *qkv, gates = (part.reshape(-1, weight.shape[1]) for part in parts)
    block = f"blk.{name.split('.')[2]}"
    return {f"{block}.attn_qkv.weight": np.concatenate(qkv), f"{block}.attn_gate.weight": gates}


def _as_llama_cpp_has_gated_delta(
    name: str, weight: np.ndarray, config: dict[str, Any], *, reorders: bool
) -> np.ndarray:
    """What its converter does; where it reorders value heads, those of a key head are that many apart."""
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    width = config["linear_value_head_dim"]
    part = name.split(".linear_attn.")[1]

    def tiled(rows: np.ndarray, width: int) -> np.ndarray:
        if not reorders:
            return rows
        shape = rows.shape
        grouped = rows.reshape(keys, values // keys, width, *shape[1:])
        return np.ascontiguousarray(grouped.swapaxes(0, 1)).reshape(shape)

    if part == "A_log":
        return tiled(-np.exp(weight), 1)
    if part in ("dt_bias", "in_proj_a.weight", "in_proj_b.weight"):
        return tiled(weight, 1)
    if part == "in_proj_z.weight":
        return tiled(weight, width)
    if part == "out_proj.weight":
        return np.ascontiguousarray(tiled(np.ascontiguousarray(weight.T), width).T)
    if part in ("in_proj_qkv.weight", "conv1d.weight"):
        weight = weight.squeeze(1) if part == "conv1d.weight" else weight
        first = 2 * keys * config["linear_key_head_dim"]
        return np.concatenate([weight[:first], tiled(weight[first:], width)])
    return weight


def as_llama_cpp_turns(weight: np.ndarray, heads: int) -> np.ndarray:
    """What its converter does to Llama's queries and keys, in its own words."""
    shape = (heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return np.ascontiguousarray(weight.reshape(shape).swapaxes(1, 2).reshape(weight.shape))
