"""gpt-oss: experts with biases and clamped gates, attention with sinks (OpenAI 2025)."""

from __future__ import annotations

from engine.errors import ModelError
from engine.models.architecture import Architecture
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import (
    architecture,
    attending,
    biases,
    experts,
    sliding_layers,
    window_of,
)
from engine.models.rope import read_rope

_ALPHA = 1.702
"""Of its gate, x * sigmoid(alpha * x), which transformers calls quick_gelu."""


def gpt_oss(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return gpt-oss: every second layer slides, the first one too."""
    config = checkpoint.text_config
    if float(config.get("swiglu_alpha", _ALPHA)) != _ALPHA:
        raise ModelError(
            f"{checkpoint.path} has swiglu_alpha {config['swiglu_alpha']}; only {_ALPHA} is "
            "supported, as in the published models."
        )
    rope = read_rope(checkpoint, context, theta=150_000.0)
    window = window_of(checkpoint)
    mixture = experts(
        checkpoint,
        activation="quick_gelu",
        renormalised=True,
        bias=True,
        clamp=float(config.get("swiglu_limit", 7.0)),
    )
    sliding = sliding_layers(checkpoint, lambda index: index % 2 == 0)
    places = [(rope, window if slides else None) for slides in sliding]
    own = biases(checkpoint, otherwise=True)
    return architecture(checkpoint, attending(checkpoint, places, mixture, sinks=True, **own))
