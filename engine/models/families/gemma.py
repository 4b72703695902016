"""Gemma 2 and the text of Gemma 3: local layers beside global ones (Gemma Team 2024, 2025)."""

from __future__ import annotations

from typing import Any

from engine.errors import ModelError
from engine.models.architecture import Architecture, Attention, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, sliding_layers, window_of
from engine.models.rope import read_rope, rope_settings


def gemma2(checkpoint: Checkpoint, context: int) -> Architecture:
    """Every second layer is global; scores and logits are capped."""
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    sliding = sliding_layers(checkpoint, lambda index: index % 2 == 0)
    layers = [LayerSpec(Attention(rope, window if slides else None)) for slides in sliding]
    config = checkpoint.text_config
    return _gemma(
        checkpoint,
        layers,
        score_cap=config.get("attn_logit_softcapping", 50.0),
        logit_cap=config.get("final_logit_softcapping", 30.0),
    )


def gemma3(checkpoint: Checkpoint, context: int) -> Architecture:
    """Every sixth layer is global, with a rope of its own; norms on q and k replace the caps."""
    config = checkpoint.text_config
    settings = rope_settings(config)
    nested = "full_attention" in settings or "sliding_attention" in settings
    far = read_rope(
        checkpoint,
        context,
        settings=(settings.get("full_attention") or {}) if nested else settings,
        theta=config.get("rope_theta", 1_000_000.0),
    )
    near = read_rope(
        checkpoint,
        context,
        settings=(settings.get("sliding_attention") or {}) if nested else {},
        theta=config.get("rope_local_base_freq", 10_000.0),
    )
    window = window_of(checkpoint)
    every = int(config.get("sliding_window_pattern") or 6)
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % every != 0)
    layers = [
        LayerSpec(Attention(near, window)) if slides else LayerSpec(Attention(far))
        for slides in sliding
    ]
    cap = config.get("final_logit_softcapping")
    return _gemma(checkpoint, layers, qk_norm=True, logit_cap=cap)


def _gemma(checkpoint: Checkpoint, layers: list[LayerSpec], **differences: Any) -> Architecture:
    """What both have: a scaled embedding, norms before and behind attention and MLP, times 1 + w."""
    config = checkpoint.text_config
    if config.get("use_bidirectional_attention"):
        raise ModelError(
            f"{checkpoint.path} looks at the tokens that follow too (its setting "
            "use_bidirectional_attention): it is made for embeddings and cannot write. "
            "Use a Gemma without it."
        )
    bias = bool(config.get("attention_bias"))
    return architecture(
        checkpoint,
        layers,
        activation=str(config.get("hidden_activation") or "gelu_pytorch_tanh"),
        query_scale=float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
        qkv_bias=bias,
        output_bias=bias,
        centred_norms=True,
        sandwich_norms=True,
        embedding_scale=checkpoint.hidden**0.5,
        **differences,
    )
