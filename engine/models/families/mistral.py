"""Mistral: Llama with a sliding window in every layer, or in none (Jiang et al. 2023)."""

from __future__ import annotations

from engine.models.architecture import Architecture, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, gated_mlp, window_of
from engine.models.rope import read_rope


def mistral(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return a Llama with ``sliding_window``, which is null from version 0.2 on: global attention."""
    rope, window = read_rope(checkpoint, context), window_of(checkpoint)
    layer = LayerSpec(attention(checkpoint, rope, window=window), gated_mlp(checkpoint))
    return architecture(checkpoint, [layer] * checkpoint.layers)
