"""Gemma 2 and the text of Gemma 3: local layers beside global ones (Gemma Team 2024, 2025)."""

from __future__ import annotations

from typing import Any

from engine.errors import ModelError
from engine.models.architecture import Architecture, LayerSpec, Rope
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attention,
    gated_mlp,
    sliding_layers,
    window_of,
)
from engine.models.rope import read_rope, rope_settings


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
    settings = rope_settings(config)
    nested = "full_attention" in settings or "sliding_attention" in settings
    global_rope = read_rope(
        checkpoint,
        context,
        settings=(settings.get("full_attention") or {}) if nested else settings,
        theta=config.get("rope_theta", 1_000_000.0),
    )
    sliding_rope = read_rope(
        checkpoint,
        context,
        settings=(settings.get("sliding_attention") or {}) if nested else {},
        theta=config.get("rope_local_base_freq", 10_000.0),
    )
    window = window_of(checkpoint)
    every = int(config.get("sliding_window_pattern") or 6)
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % every != 0)
    local = _layer(checkpoint, sliding_rope, window=window, qk_norm=True)
    global_ = _layer(checkpoint, global_rope, qk_norm=True)
    layers = [local if slides else global_ for slides in sliding]
    return _gemma(checkpoint, layers, config.get("final_logit_softcapping"))


def _layer(checkpoint: Checkpoint, rope: Rope, **differences: Any) -> LayerSpec:
    config = checkpoint.text_config
    bias = bool(config.get("attention_bias"))
    return LayerSpec(
        attention(
            checkpoint,
            rope,
            query_scale=float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
            qkv_bias=bias,
            output_bias=bias,
            **differences,
        ),
        gated_mlp(
            checkpoint, activation=str(config.get("hidden_activation") or "gelu_pytorch_tanh")
        ),
    )


def _gemma(
    checkpoint: Checkpoint, layers: list[LayerSpec], logit_cap: float | None
) -> Architecture:
    """Return a decoder with a scaled embedding, and centred norms before and after each mixer and MLP."""
    config = checkpoint.text_config
    if config.get("use_bidirectional_attention"):
        raise ModelError(
            f"{checkpoint.path} looks at the tokens that follow too (its setting "
            "use_bidirectional_attention): it is made for embeddings and cannot write. "
            "Use a Gemma without it."
        )
    return architecture(
        checkpoint,
        layers,
        centred_norms=True,
        sandwich_norms=True,
        embedding_scale=checkpoint.hidden**0.5,
        logit_cap=logit_cap,
    )
