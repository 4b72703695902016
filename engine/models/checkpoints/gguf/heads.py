"""Heads in llama.cpp's GGUF files, as the folders that its converter makes them from.

A head has layers of a family; what it has beside them is here: a published config.json, and tensors by
its names. The files also hold the target's tokens.
Sources: llama.cpp's conversion/llama.py (EAGLE-3), conversion/qwen.py (DFlash, DSpark) and
conversion/gemma.py (Gemma 4's assistant); its src/models/eagle3.cpp, dflash.cpp and gemma4-assistant.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.gguf.config import config_from
from engine.models.checkpoints.gguf.description import LocatedTensor, rope_factors, scales
from engine.models.checkpoints.gguf.header import GgufHeader, read_gguf_header
from engine.models.checkpoints.gguf.names import HEADS, ROPE_FACTORS, TensorRole, is_factor, role_of
from engine.models.checkpoints.gguf.settings import Settings

_FC = {"fc.weight": "fc.weight", "d2t": "d2t"}
_EAGLE3 = {**_FC, "enc.output_norm.weight": "input_norm.weight"}
_DFLASH = {
    **_FC,
    "enc.output_norm.weight": "hidden_norm.weight",
    "markov_w1.weight": "markov_head.markov_w1.weight",
    "markov_w2.weight": "markov_head.markov_w2.weight",
    "conf_proj.weight": "confidence_head.proj.weight",
    "conf_proj.bias": "confidence_head.proj.bias",
    "selector_predecessor.weight": "candidate_selector.predecessor_codebook",
    "selector_successor.weight": "candidate_selector.successor_codebook",
    "selector_hidden.weight": "candidate_selector.hidden_projection.weight",
}
_ASSISTANT = {
    "nextn.pre_projection.weight": "pre_projection.weight",
    "nextn.post_projection.weight": "post_projection.weight",
    "masked_embd_centroids.weight": "masked_embedding.centroids.weight",
    "masked_embd_ordering": "masked_embedding.token_ordering",
}
_OUTER = {"eagle3": _EAGLE3, "dflash": _DFLASH, "gemma4-assistant": _ASSISTANT}
"""Names outside the layers, by architecture."""
_PARTS = {
    "attn_norm_2.weight": "hidden_norm.weight",
    "attn_conv_base": "attention_conv.base_kernel",
    "attn_conv_proj.weight": "attention_conv.kernel_projection.weight",
    "ffn_conv_base": "mlp_conv.base_kernel",
    "ffn_conv_proj.weight": "mlp_conv.kernel_projection.weight",
}
"""Names within a layer that no model has."""
_FAMILIES = {"eagle3": "llama", "dflash": "qwen3", "gemma4-assistant": "gemma4"}
"""The architecture of models with such layers."""


@dataclass(frozen=True, slots=True)
class GgufHead:
    """``config`` and the names of ``tensors`` are those of the published folder, but that ``d2t`` has
    token ids, no offsets. ``heads`` and ``kv_heads`` are needed to read queries and keys."""

    config: Mapping[str, Any]
    tensors: Mapping[str, LocatedTensor]
    heads: int
    kv_heads: int


def architecture_in(file: Path) -> str | None:
    """Return the architecture of the head in ``file``; None for a model. Raises ModelError."""
    stated = read_gguf_header(file).metadata.get("general.architecture")
    return stated if stated in HEADS else None


def read_head(file: Path) -> GgufHead:
    """Describe the head in ``file`` by its header. Raises ModelError."""
    header = read_gguf_header(file)
    stated = str(header.metadata["general.architecture"])
    settings = Settings(file, header.metadata, _FAMILIES[stated])
    factors = scales(settings.architecture, (header,))
    located = {
        role.name: LocatedTensor(
            header, header.tensors[name], role, *factors.get(name.removesuffix(".weight"), ())
        )
        for name, role in _roles(header, stated)
    }
    layers = config_from(settings, frozenset(located), rope_factors((header,)))
    config = _CONFIGS[stated](settings, layers, located)
    return GgufHead(
        MappingProxyType(config),
        MappingProxyType({_published(stated, name): each for name, each in located.items()}),
        layers["num_attention_heads"],
        layers["num_key_value_heads"],
    )


def _roles(header: GgufHeader, architecture: str) -> list[tuple[str, TensorRole]]:
    """Return the role of each tensor, by the names of a model of the family."""
    roles = []
    for name in header.tensors:
        if name == ROPE_FACTORS or is_factor(_FAMILIES[architecture], name):
            continue
        block, _, rest = name.partition(".")
        number, _, part = rest.partition(".")
        own = _OUTER[architecture].get(name)
        if own is None and block == "blk" and part in _PARTS:
            own = f"model.layers.{number}.{_PARTS[part]}"
        role = role_of(_FAMILIES[architecture], name) if own is None else TensorRole(own)
        if role is None:
            raise ModelError(
                f"{header.file} has the tensor {name}, which is not supported for "
                f"{architecture}. Ignoring it would change the drafts. Choose another head for "
                "this target."
            )
        roles.append((name, role))
    return roles


def _published(architecture: str, name: str) -> str:
    return name if architecture == "gemma4-assistant" else name.removeprefix("model.")


def _target_layers(settings: Settings) -> list[int]:
    """Return the layers whose inputs the head reads."""
    layers = settings.optional("target_layers")
    if isinstance(layers, list) and layers and all(type(each) is int for each in layers):
        return layers
    raise settings.wrong("target_layers", layers, "a list of layers")


def _eagle3(
    settings: Settings, layers: dict[str, Any], tensors: Mapping[str, LocatedTensor]
) -> dict[str, Any]:
    vocabulary = settings.size("vocab_size", _tokens(settings))
    output = tensors.get("lm_head.weight")
    return layers | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "vocab_size": vocabulary,
        "draft_vocab_size": vocabulary if output is None else output.entry.shape[0],
        "eagle_aux_hidden_state_layer_ids": _target_layers(settings),
        "norm_before_residual": bool(settings.optional("norm_before_residual")),
        "norm_before_fc": bool(settings.optional("norm_before_fc")),
    }


def _dflash(
    settings: Settings, layers: dict[str, Any], tensors: Mapping[str, LocatedTensor]
) -> dict[str, Any]:
    """Return DFlash's configuration, DSpark's if there is a Markov head, DFlash2's with a selector."""
    own: dict[str, Any] = {
        "target_layer_ids": [layer - 1 for layer in _target_layers(settings)],
        "mask_token_id": settings.metadata.get("tokenizer.ggml.mask_token_id"),
    }
    for key, name in (
        ("embedding_scale", "input_embedding_scale"),
        ("logit_scale", "output_multiplier"),
        ("final_logit_softcapping", "final_logit_softcapping"),
        ("attention.value_scale", "attention_value_scale"),
        ("conv_kernel_size", "conv_kernel_size"),
        ("conv_group_size", "conv_group_size"),
        ("selector_rank", "selector_rank"),
        ("selector_top_k", "selector_top_k"),
    ):
        if (value := settings.optional(key)) is not None:
            own[name] = value
    slides = settings.optional("attention.sliding_window_pattern") or ()
    config = layers | {
        "architectures": ["DFlashDraftModel"],
        "vocab_size": _tokens(settings),
        "block_size": settings.size("block_size", 16),
        "hidden_act": settings.optional("hidden_act") or "silu",
        "is_causal": settings.optional("attention.causal"),
        "sliding_window": settings.optional("attention.sliding_window"),
        "layer_types": ["sliding_attention" if each else "full_attention" for each in slides],
        "dflash_config": own,
    }
    if "conv_kernel_size" in own:
        return config | {"architectures": ["DFlash2DraftModel"]}
    markov = tensors.get("markov_head.markov_w1.weight")
    if markov is None:
        return config
    anchored = settings.optional("sample_from_anchor")
    return config | {
        "architectures": ["Qwen3DSparkModel"],
        "markov_rank": markov.entry.shape[-1],
        "enable_confidence_head": "confidence_head.proj.weight" in tensors,
        "sample_from_anchor": True if anchored is None else bool(anchored),
    }


def _assistant(
    settings: Settings, layers: dict[str, Any], tensors: Mapping[str, LocatedTensor]
) -> dict[str, Any]:
    """Return the assistant's configuration; the file does not say how many groups its head reads."""
    embedding = tensors.get("model.embed_tokens.weight")
    centroids = tensors.get("masked_embedding.centroids.weight")
    tokens = _tokens(settings) if embedding is None else embedding.entry.shape[0]
    config: dict[str, Any] = {
        "architectures": ["Gemma4AssistantForCausalLM"],
        "model_type": "gemma4_assistant",
        "backbone_hidden_size": settings.size("embedding_length_out"),
        "text_config": layers | {"vocab_size": tokens},
    }
    if centroids is not None:
        config |= {"use_ordered_embeddings": True, "num_centroids": centroids.entry.shape[0]}
    return config


_CONFIGS: Mapping[
    str, Callable[[Settings, dict[str, Any], Mapping[str, LocatedTensor]], dict[str, Any]]
] = {"eagle3": _eagle3, "dflash": _dflash, "gemma4-assistant": _assistant}


def _tokens(settings: Settings) -> int | None:
    tokens = settings.metadata.get("tokenizer.ggml.tokens")
    return len(tokens) if tokens else None
