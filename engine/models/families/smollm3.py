"""SmolLM3: Llama in which every fourth layer knows no positions (Hugging Face 2025)."""

from __future__ import annotations

from engine.models.architecture import Architecture, Attention, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, sliding_layers, window_of
from engine.models.rope import read_rope


def smollm3(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    return architecture(
        checkpoint,
        _layers(checkpoint, context),
        qkv_bias=bool(config.get("attention_bias")),
        output_bias=bool(config.get("attention_bias")),
        mlp_bias=bool(config.get("mlp_bias")),
    )


def _layers(checkpoint: Checkpoint, context: int) -> list[LayerSpec]:
    """``no_rope_layers`` holds 1 for a layer with positions, 0 for one without."""
    config = checkpoint.text_config
    every = int(config.get("no_rope_layer_interval", 4))
    turned = config.get("no_rope_layers") or [
        (index + 1) % every for index in range(checkpoint.layers)
    ]
    rope = read_rope(checkpoint, context, theta=config.get("rope_theta", 2_000_000.0))
    window = window_of(checkpoint) if config.get("use_sliding_window") else None
    sliding = sliding_layers(checkpoint, lambda index: not turned[index])
    return [
        LayerSpec(Attention(rope if turns else None, window if slides else None))
        for turns, slides in zip(turned, sliding, strict=False)
    ]
