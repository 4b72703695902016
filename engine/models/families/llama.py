"""Llama 2 and 3, and whoever took their architecture over, as SmolLM2 (Touvron et al. 2023)."""

from __future__ import annotations

from engine.models.architecture import Architecture, Attention, LayerSpec
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families.common import architecture
from engine.models.rope import read_rope


def llama(checkpoint: Checkpoint, context: int) -> Architecture:
    """All layers alike: the whole past, one rope."""
    config = checkpoint.text_config
    layer = LayerSpec(Attention(read_rope(checkpoint, context)))
    return architecture(
        checkpoint,
        [layer] * checkpoint.layers,
        qkv_bias=bool(config.get("attention_bias")),
        output_bias=bool(config.get("attention_bias")),
        mlp_bias=bool(config.get("mlp_bias")),
    )
