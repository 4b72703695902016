"""OLMoE (2024). OLMo 2, 3 and EXAONE 4: what is added to the stream is normed, what is read is not
(OLMo Team 2024, 2025; LG AI Research 2025)."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import ModelError
from engine.models.architecture import Architecture, Experts, GatedMlp, LayerSpec, Rope
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attending,
    biases,
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
            f"{checkpoint.path} clips queries, keys and values (clip_qkv), which is not "
            "supported. Use an OLMoE without it, like the published ones."
        )
    places = [(read_rope(checkpoint, context), None)] * checkpoint.layers
    return architecture(checkpoint, _normed(checkpoint, places, experts(checkpoint)))


def olmo2(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return OLMo 2: queries and keys are normed over all heads together."""
    places = [(read_rope(checkpoint, context, theta=500_000.0), None)] * checkpoint.layers
    layers = _normed(checkpoint, places, gated_mlp(checkpoint))
    return architecture(checkpoint, layers, post_norms=True)


def olmo3(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return OLMo 3: three of four layers slide. The rope's scaling concerns the others alone."""
    theta = float(checkpoint.text_config.get("rope_theta") or 500_000.0)
    far, near = ropes(checkpoint, context, theta, theta)
    window = window_of(checkpoint)
    sliding = sliding_layers(checkpoint, lambda index: (index + 1) % 4 != 0)
    places = [(near, window) if slides else (far, None) for slides in sliding]
    layers = _normed(checkpoint, places, gated_mlp(checkpoint))
    return architecture(checkpoint, layers, post_norms=True)


def _normed(
    checkpoint: Checkpoint,
    places: Iterable[tuple[Rope, int | None]],
    feed_forward: Experts | GatedMlp,
) -> list[LayerSpec]:
    norms = {"qk_norm": True, "qk_norm_across_heads": True}
    return attending(checkpoint, places, feed_forward, **norms, **biases(checkpoint))


def exaone4(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return EXAONE 4. The small one is global; in the large one three of four layers slide, and the
    others have no positions."""
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    pattern = checkpoint.text_config.get("sliding_window_pattern") or 4
    every = len(pattern) if isinstance(pattern, str) else int(pattern)  # "LLLG" or 4
    sliding = sliding_layers(checkpoint, lambda index: bool(window) and (index + 1) % every != 0)
    far = rope if window is None else None, None
    places = [(rope, window) if slides else far for slides in sliding]
    layers = attending(checkpoint, places, gated_mlp(checkpoint), qk_norm=True)
    return architecture(checkpoint, layers, post_norms=True)
