"""Qwen 2 and 2.5: a bias on q, k and v. Qwen 3: norms on q and k instead (Qwen Team 2024, 2025)."""

from __future__ import annotations

from engine.models.architecture import Architecture, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attention,
    gated_mlp,
    sliding_layers,
    window_of,
)
from engine.models.rope import read_rope


def qwen2(checkpoint: Checkpoint, context: int) -> Architecture:
    return architecture(checkpoint, _layers(checkpoint, context, qkv_bias=True))


def qwen3(checkpoint: Checkpoint, context: int) -> Architecture:
    bias = bool(checkpoint.text_config.get("attention_bias"))
    layers = _layers(checkpoint, context, qk_norm=True, qkv_bias=bias, output_bias=bias)
    return architecture(checkpoint, layers)


def _layers(checkpoint: Checkpoint, context: int, **differences: bool) -> list[LayerSpec]:
    """Return the layers: with ``use_sliding_window``, those from ``max_window_layers`` on slide."""
    config = checkpoint.text_config
    rope = read_rope(checkpoint, context)
    window = window_of(checkpoint) if config.get("use_sliding_window") else None
    first = int(config.get("max_window_layers", 28))
    sliding = sliding_layers(checkpoint, lambda index: index >= first)
    mlp = gated_mlp(checkpoint)
    return [
        LayerSpec(
            attention(checkpoint, rope, window=window if slides else None, **differences), mlp
        )
        for slides in sliding
    ]
