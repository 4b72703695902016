"""Command R7B and A: attention and MLP side by side behind one LayerNorm (Cohere 2024, 2025)."""

from __future__ import annotations

from dataclasses import replace

from engine.models.architecture import Architecture
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attending,
    biases,
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
    local = None if window_of(checkpoint) is None else rope, window_of(checkpoint)
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % every != 0)
    places = [local if slides else (None, None) for slides in sliding]
    return architecture(
        checkpoint,
        attending(checkpoint, places, gated_mlp(checkpoint), **biases(checkpoint)),
        epsilon=float(config.get("layer_norm_eps", 1e-5)),
        layer_norms=True,
        parallel=True,
        logit_scale=float(config.get("logit_scale", 0.0625)),
    )
