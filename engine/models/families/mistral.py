"""Mistral: Llama with a sliding window in every layer, or in none (Jiang et al. 2023, 2024).

Ministral (2024) may slide in some layers. Ministral 3 (2025) sharpens attention in long texts.
"""

from __future__ import annotations

from typing import Any

from engine.models.architecture import Architecture, Experts, GatedMlp, Temperature
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attending,
    attention,
    experts,
    gated_mlp,
    sliding_layers,
    uniform,
    window_of,
)
from engine.models.rope import read_rope, rope_settings

_MINISTRAL3_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
"""What transformers has for a configuration without rope settings."""


def mistral(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return a Llama with ``sliding_window``, which is null from version 0.2 on: global attention."""
    return _sliding(checkpoint, context, gated_mlp(checkpoint))


def mixtral(checkpoint: Checkpoint, context: int) -> Architecture:
    return _sliding(checkpoint, context, experts(checkpoint, renormalised=True))


def _sliding(
    checkpoint: Checkpoint, context: int, feed_forward: Experts | GatedMlp
) -> Architecture:
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    return uniform(checkpoint, attention(checkpoint, rope, window=window), feed_forward)


def ministral(checkpoint: Checkpoint, context: int) -> Architecture:
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    sliding = sliding_layers(checkpoint, lambda index: window is not None)
    places = [(rope, window if slides else None) for slides in sliding]
    return architecture(checkpoint, attending(checkpoint, places, gated_mlp(checkpoint)))


def ministral3(checkpoint: Checkpoint, context: int) -> Architecture:
    settings: Any = rope_settings(checkpoint.text_config) or _MINISTRAL3_ROPE
    temperature = None
    if settings.get("llama_4_scaling_beta"):
        temperature = Temperature(
            float(settings["llama_4_scaling_beta"]),
            int(settings["original_max_position_embeddings"]),
        )
    rope = read_rope(checkpoint, context, settings=settings)
    window = window_of(checkpoint)
    attends = attention(checkpoint, rope, window=window, temperature=temperature)
    return uniform(checkpoint, attends, gated_mlp(checkpoint))


def mistral3(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return the text part of Mistral 3 or Ministral 3, which also see pictures."""
    is_ministral = checkpoint.text_config.get("model_type") == "ministral3"
    return (ministral3 if is_ministral else mistral)(checkpoint, context)
