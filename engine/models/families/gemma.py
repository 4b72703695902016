"""Gemma 2 and the text of Gemma 3 and 4: local layers beside global ones (Gemma Team 2024 to 2026)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.errors import ModelError
from engine.models.architecture import Architecture, Experts, GatedMlp, LayerSpec, Rope
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attention,
    biases,
    experts,
    gated_mlp,
    ropes,
    sliding_layers,
    window_of,
)
from engine.models.rope import read_rope, rope_settings

_GEMMA4_ROPES: Mapping[str, Mapping[str, Any]] = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    "full_attention": {
        "rope_type": "proportional",
        "partial_rotary_factor": 0.25,
        "rope_theta": 1_000_000.0,
    },
}
"""Transformers' default."""


def gemma2(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return Gemma 2: every second layer is global; scores and logits are capped."""
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    sliding = sliding_layers(checkpoint, lambda index: index % 2 == 0)
    config = checkpoint.text_config
    cap = config.get("attn_logit_softcapping", 50.0)
    layers = [
        _layer(checkpoint, rope, window=window if slides else None, score_cap=cap)
        for slides in sliding
    ]
    return _gemma(checkpoint, layers, config.get("final_logit_softcapping", 30.0))


def gemma3(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return Gemma 3: every sixth layer is global, with its own rope; q and k are normed."""
    config = checkpoint.text_config
    global_rope, sliding_rope = ropes(
        checkpoint,
        context,
        config.get("rope_theta", 1_000_000.0),
        config.get("rope_local_base_freq", 10_000.0),
    )
    window = window_of(checkpoint)
    every = int(config.get("sliding_window_pattern") or 6)
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % every != 0)
    local = _layer(checkpoint, sliding_rope, window=window, qk_norm=True)
    global_ = _layer(checkpoint, global_rope, qk_norm=True)
    layers = [local if slides else global_ for slides in sliding]
    return _gemma(checkpoint, layers, config.get("final_logit_softcapping"))


def gemma4(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return the text of Gemma 4: the last layers read the keys and values of earlier ones.

    Global layers have wider heads, of which a part rotates. The small models have per-layer embeddings.
    """
    config = checkpoint.text_config
    by_type = rope_settings(config) or _GEMMA4_ROPES
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % 6 != 0)
    sliding[-1] = False  # as in transformers, whatever is stated
    makers = checkpoint.layers - int(config.get("num_kv_shared_layers") or 0)
    last = {slides: at for at, slides in enumerate(sliding[:makers])}
    layers = []
    for index, slides in enumerate(sliding):
        head_dim, kv_heads = _gemma4_heads(checkpoint, index, slides)
        shares = index >= makers
        spec = _layer(
            checkpoint,
            read_rope(
                checkpoint,
                context,
                settings=by_type["sliding_attention" if slides else "full_attention"],
                head_dim=head_dim,
            ),
            head_dim=head_dim,
            kv_heads=kv_heads,
            query_scale=1.0,
            window=window_of(checkpoint) if slides else None,
            qk_norm=True,
            value_norm=not shares,
            keys_as_values=bool(config.get("attention_k_eq_v")) and not slides and not shares,
            shared_with=last.get(slides, 0) if shares else None,  # of an assistant: the target's
        )
        if shares and config.get("use_double_wide_mlp"):
            wide = 2 * spec.feed_forward.intermediate
            spec = replace(spec, feed_forward=replace(spec.feed_forward, intermediate=wide))
        if config.get("enable_moe_block"):
            assert isinstance(spec.feed_forward, GatedMlp)
            spec = replace(spec, feed_forward=_gemma4_experts(checkpoint, spec.feed_forward))
        layers.append(spec)
    return _gemma(
        checkpoint,
        layers,
        config.get("final_logit_softcapping"),
        centred_norms=False,
        per_layer_width=config.get("hidden_size_per_layer_input") or None,
        layer_scalars=True,
    )


def _gemma4_experts(checkpoint: Checkpoint, mlp: GatedMlp) -> Experts:
    """Return the experts of 26B-A4B, beside which each layer has its ``mlp``."""
    config = checkpoint.text_config
    return experts(
        checkpoint,
        chosen=int(config["top_k_experts"]),
        activation=mlp.activation,
        renormalised=True,
        shared=mlp.intermediate,
        norms=True,
        score_scales=any(name.endswith("per_expert_scale") for name in checkpoint.tensors),
    )


def _gemma4_heads(checkpoint: Checkpoint, index: int, slides: bool) -> tuple[int, int]:
    """Return head_dim and kv_heads of a layer. Later versions of transformers list them by layer."""
    config = checkpoint.text_config
    head_dim, kv_heads = checkpoint.head_dim, checkpoint.kv_heads
    listed = config.get("per_layer_config")
    if listed is not None:
        own = listed.get(str(index), {})
        return int(own.get("head_dim", head_dim)), int(own.get("num_key_value_heads", kv_heads))
    if slides:
        return head_dim, kv_heads
    if config.get("attention_k_eq_v"):
        kv_heads = int(config.get("num_global_key_value_heads") or kv_heads)
    return int(config.get("global_head_dim") or 512), kv_heads


def _layer(checkpoint: Checkpoint, rope: Rope, **differences: Any) -> LayerSpec:
    config = checkpoint.text_config
    scale = {"query_scale": float(config.get("query_pre_attn_scalar", 256)) ** -0.5}
    activation = str(config.get("hidden_activation") or "gelu_pytorch_tanh")
    return LayerSpec(
        attention(checkpoint, rope, **scale | biases(checkpoint) | differences),
        gated_mlp(checkpoint, activation=activation),
    )


def _gemma(
    checkpoint: Checkpoint, layers: list[LayerSpec], logit_cap: float | None, **differences: Any
) -> Architecture:
    """Return a decoder with a scaled embedding, and norms before and after each mixer and MLP.

    They are centred, unless ``differences`` say otherwise.
    """
    config = checkpoint.text_config
    looks_ahead = config.get("use_bidirectional_attention")
    if looks_ahead not in (None, False, "vision"):  # with "vision" text sees the past
        raise ModelError(
            f"{checkpoint.path} attends to later tokens too (use_bidirectional_attention): "
            "it is made for embeddings and cannot write. Use a Gemma without it."
        )
    return architecture(
        checkpoint,
        layers,
        **{"centred_norms": True} | differences,
        sandwich_norms=True,
        embedding_scale=checkpoint.hidden**0.5,
        logit_cap=logit_cap,
    )
