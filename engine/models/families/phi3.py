"""Phi-3, 3.5 and 4: Llama with q, k, v and gate, up in one tensor each (Abdin et al. 2024)."""

from __future__ import annotations

from engine.models.architecture import Architecture, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, gated_mlp, window_of
from engine.models.rope import read_rope, rope_settings

_LONGROPE_NAMES = ("su", "yarn")
"""LongRoPE's names in the first configurations of Phi-3."""


def phi3(checkpoint: Checkpoint, context: int) -> Architecture:
    settings = dict(rope_settings(checkpoint.text_config))
    if (settings.get("rope_type") or settings.get("type")) in _LONGROPE_NAMES:
        settings["rope_type"] = "longrope"
    rope, window = read_rope(checkpoint, context, settings=settings), window_of(checkpoint)
    layer = LayerSpec(
        attention(checkpoint, rope, window=window, joined=True), gated_mlp(checkpoint, joined=True)
    )
    return architecture(checkpoint, [layer] * checkpoint.layers)
