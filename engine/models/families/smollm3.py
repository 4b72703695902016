"""SmolLM3: Llama in which every fourth layer has no positions (Hugging Face 2025)."""

from __future__ import annotations

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


def smollm3(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return SmolLM3: ``no_rope_layers`` has 1 for a layer with positions, 0 for one without."""
    config = checkpoint.text_config
    every = int(config.get("no_rope_layer_interval", 4))
    with_rope = config.get("no_rope_layers") or [
        (index + 1) % every for index in range(checkpoint.layers)
    ]
    rope = read_rope(checkpoint, context, theta=config.get("rope_theta", 2_000_000.0))
    window = window_of(checkpoint) if config.get("use_sliding_window") else None
    sliding = sliding_layers(checkpoint, lambda index: not with_rope[index])
    mlp = gated_mlp(checkpoint, bias=bool(config.get("mlp_bias")))
    places = [
        (rope if rotates else None, window if slides else None)
        for rotates, slides in zip(with_rope, sliding, strict=False)
    ]
    return architecture(checkpoint, attending(checkpoint, places, mlp, **biases(checkpoint)))
