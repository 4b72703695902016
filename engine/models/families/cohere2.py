"""Command R7B and A: attention and MLP side by side behind one LayerNorm (Cohere 2024, 2025)."""

from __future__ import annotations

from dataclasses import replace

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


def cohere2(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return Cohere 2: three of four layers slide, and the others have no positions."""
    config = checkpoint.text_config
    rope = replace(read_rope(checkpoint, context), interleaved=True)
    every = int(config.get("sliding_window_pattern") or 4)
    bias, window = bool(config.get("attention_bias")), window_of(checkpoint)
    mlp = gated_mlp(checkpoint)
    layers = [
        LayerSpec(
            attention(
                checkpoint,
                rope if slides and window is not None else None,
                window=window if slides else None,
                qkv_bias=bias,
                output_bias=bias,
            ),
            mlp,
        )
        for slides in sliding_layers(checkpoint, lambda index: (index + 1) % every != 0)
    ]
    return architecture(
        checkpoint,
        layers,
        epsilon=float(config.get("layer_norm_eps", 1e-5)),
        layer_norms=True,
        parallel=True,
        logit_scale=float(config.get("logit_scale", 0.0625)),
    )
