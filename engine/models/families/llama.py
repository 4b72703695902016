"""Llama 2 and 3, and models with their architecture, as SmolLM2 (Touvron et al. 2023)."""

from __future__ import annotations

from engine.models.architecture import Architecture, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture, attention, gated_mlp
from engine.models.rope import read_rope


def llama(checkpoint: Checkpoint, context: int) -> Architecture:
    """Return a decoder whose layers are all alike, with global attention and one rope."""
    config = checkpoint.text_config
    bias = bool(config.get("attention_bias"))
    rope = read_rope(checkpoint, context)
    layer = LayerSpec(
        attention(checkpoint, rope, qkv_bias=bias, output_bias=bias),
        gated_mlp(checkpoint, bias=bool(config.get("mlp_bias"))),
    )
    return architecture(checkpoint, [layer] * checkpoint.layers)
