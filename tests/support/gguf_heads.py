"""GGUF files of heads, made of their folders as llama.cpp's converter makes them.

The package ``gguf`` lacks these architectures, so names and keys are said here, from llama.cpp's
conversion/llama.py, qwen.py and gemma.py and its gguf-py/gguf/constants.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.torch import load_file

from tests.support.gguf_files import Kind, Tensors, all_in, as_llama_cpp_turns

_OUTER = {
    "embed_tokens": "token_embd",
    "lm_head": "output",
    "norm": "output_norm",
    "fc": "fc",
    "input_norm": "enc.output_norm",
    "hidden_norm": "enc.output_norm",
    "markov_head.markov_w1": "markov_w1",
    "markov_head.markov_w2": "markov_w2",
    "confidence_head.proj": "conf_proj",
    "candidate_selector.predecessor_codebook": "selector_predecessor.weight",
    "candidate_selector.successor_codebook": "selector_successor.weight",
    "candidate_selector.hidden_projection": "selector_hidden",
    "pre_projection": "nextn.pre_projection",
    "post_projection": "nextn.post_projection",
    "masked_embedding.centroids": "masked_embd_centroids",
    "masked_embedding.token_ordering": "masked_embd_ordering",
}
_PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "hidden_norm": "attn_norm_2",
    "post_attention_layernorm": "ffn_norm",
    "attention_conv.base_kernel": "attn_conv_base",
    "attention_conv.kernel_projection": "attn_conv_proj",
    "mlp_conv.base_kernel": "ffn_conv_base",
    "mlp_conv.kernel_projection": "ffn_conv_proj",
}
_OF_GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "layer_scalar": "layer_output_scale.weight",
}
_BARE = ("codebook", "token_ordering", "layer_scalar", "base_kernel")
"""Endings of published names without a suffix."""


def write_gguf_head(folder: Path, file: Path, layers: int, kind: Kind | None = None) -> Path:
    """The head in ``folder``, whose target has ``layers``, as a GGUF file; ``kind`` as for
    ``write_gguf``."""
    config = json.loads((folder / "config.json").read_text())
    kind = kind or all_in("F32")
    if "backbone_hidden_size" in config:
        writer = gguf.GGUFWriter(file, "gemma4-assistant")
        _describe_assistant(writer, config)
    elif "draft_vocab_size" in config:
        writer = gguf.GGUFWriter(file, "eagle3")
        _describe_eagle3(writer, config, layers)
    else:
        writer = gguf.GGUFWriter(file, "dflash")
        _describe_dflash(writer, config)
    for name, weight in _converted(folder, config).items():
        if weight.dtype == np.int64:
            writer.add_tensor(name, weight)
            continue
        stored = gguf.GGMLQuantizationType[kind(name, weight)]
        writer.add_tensor(name, gguf.quants.quantize(weight, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _describe_layers(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-6))
    writer.add_token_list([f"t{each}" for each in range(config["vocab_size"])])


def _describe_eagle3(writer: gguf.GGUFWriter, config: dict[str, Any], layers: int) -> None:
    inner = config | config.get("transformer_layer_config", {})
    _describe_layers(writer, inner)
    writer.add_rope_freq_base(inner.get("rope_theta", 10000.0))
    writer.add_rope_dimension_count(inner["head_dim"])
    writer.add_vocab_size(inner["vocab_size"])
    read = config.get("eagle_aux_hidden_state_layer_ids") or [2, layers // 2, layers - 3]
    writer.add_array("eagle3.target_layers", read)
    writer.add_uint32("eagle3.target_hidden_size", inner["hidden_size"])
    for key in ("norm_before_residual", "norm_before_fc"):
        writer.add_bool(f"eagle3.{key}", config.get(key, False))


def _describe_dflash(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    own = config | config.get("dflash_config", {})
    _describe_layers(writer, own)
    writer.add_rope_freq_base(own["rope_theta"])
    writer.add_uint32("dflash.block_size", own["block_size"])
    writer.add_array("dflash.target_layers", [layer + 1 for layer in own["target_layer_ids"]])
    writer.add_mask_token_id(own["mask_token_id"])
    for key in ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"):
        if key in own:
            writer.add_uint32(f"dflash.{key}", own[key])
    if "sliding_window" in own:
        slides = [kind == "sliding_attention" for kind in own["layer_types"]]
        writer.add_sliding_window(own["sliding_window"])
        writer.add_sliding_window_pattern(slides)
    if "is_causal" in own:
        writer.add_causal_attention(own["is_causal"])
    if "markov_rank" in own:
        writer.add_bool("dflash.sample_from_anchor", own.get("sample_from_anchor", True))
        writer.add_bool("dflash.has_confidence_head", own["enable_confidence_head"])


def _describe_assistant(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    text, name = config["text_config"], "gemma4-assistant"
    slides = [kind == "sliding_attention" for kind in text["layer_types"]]
    own = text["per_layer_config"]
    width = own.get(str(len(slides) - 1), {}).get("head_dim", text["head_dim"])
    _describe_layers(writer, text | {"head_dim": width})
    writer.add_key_length_swa(text["head_dim"])
    writer.add_value_length_swa(text["head_dim"])
    writer.add_rope_freq_base(1e6)
    writer.add_rope_freq_base_swa(1e4)
    writer.add_rope_dimension_count(width)
    writer.add_rope_dimension_count_swa(text["head_dim"])
    writer.add_sliding_window(text.get("sliding_window", 512))
    writer.add_sliding_window_pattern(slides)
    writer.add_shared_kv_layers(len(slides))
    writer.add_embedding_length_per_layer_input(0)
    writer.add_uint32(f"{name}.embedding_length_out", config["backbone_hidden_size"])
    writer.add_nextn_predict_layers(len(slides))
    turned = np.where(np.arange(width // 2) < width // 8, 1, 1e30).astype(np.float32)
    writer.add_tensor("rope_freqs.weight", turned)


def _converted(folder: Path, config: dict[str, Any]) -> Tensors:
    found: Tensors = {}
    eagle3 = "draft_vocab_size" in config
    parts = _PARTS | _OF_GEMMA if "backbone_hidden_size" in config else _PARTS
    inner = config.get("transformer_layer_config", config)
    for published, tensor in load_file(folder / "model.safetensors").items():
        if published == "t2d" or (published == "lm_head.weight" and not eagle3):
            continue
        weight = (tensor if "int" in str(tensor.dtype) else tensor.float()).numpy()
        if published == "d2t":
            found["d2t"] = weight + np.arange(len(weight))
            continue
        name = published.removeprefix("model.").replace("midlayer.", "layers.0.")
        name, _, suffix = (name, "", "") if name.endswith(_BARE) else name.rpartition(".")
        ending = f".{suffix}" if suffix else ""
        if not name.startswith("layers."):
            found[_OUTER[name] + ending] = weight
            continue
        _, number, part = name.split(".", 2)
        heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(parts[part])
        if eagle3 and heads:
            weight = as_llama_cpp_turns(weight, inner[heads])
        found[f"blk.{number}.{parts[part]}{ending}"] = weight
    return found
