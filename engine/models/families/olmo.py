"""OLMoE (2024). OLMo 2, 3 and EXAONE 4: what is added to the stream is normed, what is read is not
(OLMo Team 2024, 2025; LG AI Research 2025)."""

from __future__ import annotations

from engine.errors import ModelError
from engine.models.architecture import Architecture, LayerSpec, Rope
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attention,
    experts,
    gated_mlp,
    ropes,
    sliding_layers,
    window_of,
)
from engine.models.rope import read_rope


def olmoe(checkpoint: Checkpoint, context: int) -> Architecture:
    config = checkpoint.text_config
    if config.get("clip_qkv") is not None:
        raise ModelError(
            f"{checkpoint.path} clips queries, keys and values (its setting clip_qkv), which is not "
            "computed here. Use an OLMoE without it, as the published ones are."
        )
    bias = bool(config.get("attention_bias"))
    layer = LayerSpec(
        attention(
            checkpoint,
            read_rope(checkpoint, context),
            qk_norm=True,
            qk_norm_across_heads=True,
            qkv_bias=bias,
            output_bias=bias,
        ),
        experts(checkpoint),
    )
    return architecture(checkpoint, [layer] * checkpoint.layers)


def olmo2(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return OLMo 2: queries and keys are normed over all heads together."""
    rope = read_rope(checkpoint, context, theta=500_000.0)
    return _olmo(checkpoint, [rope] * checkpoint.layers, [None] * checkpoint.layers)


def olmo3(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return OLMo 3: three of four layers slide. The rope's scaling concerns the others alone."""
    theta = float(checkpoint.text_config.get("rope_theta") or 500_000.0)
    far, near = ropes(checkpoint, context, theta, theta)
    window = window_of(checkpoint)
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % 4 != 0)
    return _olmo(
        checkpoint,
        [near if slides else far for slides in sliding],
        [window if slides else None for slides in sliding],
    )


def _olmo(checkpoint: Checkpoint, rope: list[Rope], windows: list[int | None]) -> Architecture:
    bias = bool(checkpoint.text_config.get("attention_bias"))
    mlp = gated_mlp(checkpoint)
    layers = [
        LayerSpec(
            attention(
                checkpoint,
                each,
                window=window,
                qk_norm=True,
                qk_norm_across_heads=True,
                qkv_bias=bias,
                output_bias=bias,
            ),
            mlp,
        )
        for each, window in zip(rope, windows, strict=True)
    ]
    return architecture(checkpoint, layers, post_norms=True)


def exaone4(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return EXAONE 4. The small one is global; in the large one three of four layers slide, and the
    others have no positions."""
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    pattern = checkpoint.text_config.get("sliding_window_pattern") or 4
    every = len(pattern) if isinstance(pattern, str) else int(pattern)  # "LLLG" or 4
    sliding = sliding_layers(checkpoint, lambda index: bool(window) and (index + 1) % every != 0)
    mlp = gated_mlp(checkpoint)
    layers = [
        LayerSpec(
            attention(
                checkpoint,
                rope if slides or window is None else None,
                window=window if slides else None,
                qk_norm=True,
            ),
            mlp,
        )
        for slides in sliding
    ]
    return architecture(checkpoint, layers, post_norms=True)
